"""First and later calls inside a process: after load, after preload, primed, and warm latency."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.cold import in_rounds, that_run
from benchmarks.process import Sample, run
from benchmarks.ready import Ready
from benchmarks.registry import System
from benchmarks.venvs import Unavailable

_BEFORE = ("nothing", "preload", "prime")
_CALLS = 30

Report = dict[str, Any]


def measure_warm(ready: Ready, systems: list[System], models: dict[str, int]) -> Report:
    """Return, for each model and system, the first call and the median later one, by process."""
    report: Report = {}
    for model, rounds in models.items():
        print(f"warm latency: {model}", flush=True)
        reasons: dict[str, str] = {}
        there = ready.systems(model, [system for system in systems if system.calls], reasons)

        def once(system: System, model: str = model) -> Sample:
            python = ready.python(system.environment)
            return run(system.run_command(python, model, "--calls", str(_CALLS)))

        samples = in_rounds(that_run(there, once, reasons), rounds, once)
        report[model] = {
            "systems": {
                system.name: {"title": system.title, **_described(samples[system.name])}
                for system in there
                if system.name in samples
            },
            "not_available": reasons,
        }
    return report


def measure_first(ready: Ready, systems: list[System], models: dict[str, int]) -> Report:
    """Return the first call of our backends after load, preload and prime, and the steady state."""
    report: Report = {}
    for model, rounds in models.items():
        print(f"first call: {model}", flush=True)
        reasons: dict[str, str] = {}
        there = ready.systems(model, [system for system in systems if system.first_call], reasons)
        report[model] = {"systems": {}, "not_available": reasons}
        for system in there:
            try:
                report[model]["systems"][system.name] = {
                    "title": system.title,
                    **_first_calls(ready, system, model, rounds),
                }
            except Unavailable as err:
                reasons[system.name] = str(err)
                print(f"  {system.name}: not available: {err}", flush=True)
    return report


def _first_calls(ready: Ready, system: System, model: str, rounds: int) -> Report:
    python = ready.python(system.environment)
    found: Report = {before: {"first_s": [], "later_s": [], "ahead_s": []} for before in _BEFORE}
    for _ in range(rounds):
        for before in _BEFORE:
            command = system.run_command(python, model, "--calls", str(_CALLS))
            sample = run([*command, "--before", before])
            found[before]["first_s"].append(sample.stages["first call"])
            found[before]["later_s"].append(median(sample.calls))
            found[before]["ahead_s"].append(sample.stages.get(before, 0.0))
    return found


def _described(samples: list[Sample]) -> Report:
    return {
        "first_s": [sample.stages["first call"] for sample in samples],
        "later_s": [median(sample.calls) for sample in samples],
    }
