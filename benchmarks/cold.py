"""Cold start: whole processes, from fork to exit, in rounds over all systems.

Each round runs every system once, and each starts one place later than the last, so that what
disturbs the machine meets all alike. Outputs are compared with those of jax.jit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.places import BENCH
from benchmarks.process import Sample, run
from benchmarks.ready import Ready, note_of
from benchmarks.registry import MODELS, System
from benchmarks.venvs import Unavailable

# Of the largest output: f32, other kernels and another order of additions in every system.
TOLERANCE = 1e-3
_REFERENCE = "jit"

Report = dict[str, Any]


def measure_cold(ready: Ready, systems: list[System], models: dict[str, int]) -> Report:
    """Return, for each model, the samples of each system; `models` says how many rounds."""
    return {model: _measure(ready, systems, model, rounds) for model, rounds in models.items()}


def _measure(ready: Ready, systems: list[System], model: str, rounds: int) -> Report:
    print(f"cold start: {model}", flush=True)
    reasons: dict[str, str] = {}
    there = ready.systems(model, systems, reasons)
    outputs = BENCH / "outputs" / model
    outputs.mkdir(parents=True, exist_ok=True)

    def once(system: System) -> Sample:
        command = system.run_command(ready.python(system.environment), model)
        return run([*command, "--out", str(outputs / f"{system.name}.npy")])

    # The first of each is not counted: it fills the page cache and writes the .pyc files.
    there = that_run(there, once, reasons)
    differences = {system.name: _difference(outputs, system) for system in there if system.calls}
    samples = in_rounds(there, rounds, once)
    return {
        "rounds": rounds,
        "systems": {
            system.name: {
                "title": system.title,
                "peer": system.peer,
                "difference": differences.get(system.name),
                **_described(samples[system.name]),
                **{key: note_of(system.artifact_folder(model)).get(key) for key in _NOTED},
            }
            for system in there
            if system.name in samples
        },
        "not_available": reasons,
    }


_NOTED = ("build_s", "size_mb")


def in_rounds(
    systems: Sequence[System], rounds: int, once: Callable[[System], Sample]
) -> dict[str, list[Sample]]:
    """Return the samples of each system: one from each round, the order rotated.

    A system that fails in any round is left out: pairs need every round.
    """
    samples: dict[str, list[Sample]] = {system.name: [] for system in systems}
    for index in range(rounds):
        shift = index % max(1, len(systems))
        for system in [*systems[shift:], *systems[:shift]]:
            if system.name not in samples:
                continue
            try:
                samples[system.name].append(once(system))
            except Unavailable as err:
                del samples[system.name]
                print(f"  {system.name}: left out: {err}", flush=True)
        print(f"  round {index + 1} of {rounds}", flush=True)
    return samples


def that_run(
    systems: list[System], once: Callable[[System], Sample], reasons: dict[str, str]
) -> list[System]:
    """Return the systems that run here, and add why the others do not."""
    there = []
    for system in systems:
        try:
            once(system)
            there.append(system)
        except Unavailable as err:
            reasons[system.name] = str(err)
            print(f"  {system.name}: not available: {err}", flush=True)
    return there


def _difference(outputs: Path, system: System) -> float | None:
    """Return the largest difference from jit's outputs, as a part of the largest output."""
    reference = outputs / f"{_REFERENCE}.npy"
    if not reference.exists():
        return None
    return relative_difference(np.load(outputs / f"{system.name}.npy"), np.load(reference))


def relative_difference(found: Any, expected: Any) -> float:
    """Return max |found - expected| / max |expected|; infinite if the shapes differ or a NaN."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def mismatches(report: Report) -> list[str]:
    """Return a line for each system whose outputs are not jit's."""
    return [
        f"{model}: {name}: outputs differ from jax.jit by {system['difference']:.2g} of the largest"
        for model, measured in report.items()
        if model in MODELS
        for name, system in measured["systems"].items()
        if system["difference"] is not None and not system["difference"] <= TOLERANCE
    ]


def _described(samples: list[Sample]) -> Report:
    stages = samples[0].stages
    return {
        "wall_s": [sample.wall_s for sample in samples],
        "first_result_s": [sample.first_result_s for sample in samples],
        "cpu_s": [sample.cpu_s for sample in samples],
        "rss_mb": [sample.rss_mb for sample in samples],
        "stages_s": {stage: [sample.stages[stage] for sample in samples] for stage in stages},
    }
