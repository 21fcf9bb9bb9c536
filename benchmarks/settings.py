"""What settings of a process's environment change at its start: whole processes, in turn.

They are settings of glibc, OpenBLAS and oneDNN, no switches of aotbuild: they hold for all that
runs in the process, so only who starts it can choose them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.medians import paired, summarize
from benchmarks.process import Sample, run
from benchmarks.ready import Ready
from benchmarks.registry import System

_MALLOC = (
    "glibc.malloc.arena_max=1:glibc.malloc.top_pad=67108864:glibc.malloc.trim_threshold=1073741824"
)
# glibc.malloc.hugetlb and the others: the manual of glibc, "Memory Allocation Tunables".
SETTINGS: dict[str, dict[str, str]] = {
    "none": {},
    "one arena, grown by 64 MB": {"GLIBC_TUNABLES": _MALLOC},
    "huge pages": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
    "both": {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:{_MALLOC}"},
    "OPENBLAS_NUM_THREADS=1": {"OPENBLAS_NUM_THREADS": "1"},
    # https://uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html
    "ONEDNN_MAX_CPU_ISA=AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "all": {
        "GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:{_MALLOC}",
        "OPENBLAS_NUM_THREADS": "1",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
}
# What is started: models, and systems that have one of these names.
_STARTED = (("transformer", "numpy-hoist-fast"), ("digits", "numpy-hoist"))
_CALLS = 20


def measure_settings(ready: Ready, systems: list[System], rounds: int) -> dict[str, Any]:
    """Return `{"rows": […]}`: the numpy backend's start under each setting, as a ratio to none."""
    rows: list[dict[str, Any]] = []
    for model, name in _STARTED:
        print(f"settings: {model} by {name} under each", flush=True)
        for system in ready.systems(model, [one for one in systems if one.name == name], {}):
            python = ready.python(system.environment)
            command = system.run_command(python, model, "--calls", str(_CALLS))
            rows += _rows(model, command, rounds)
    return {"rows": rows}


def _rows(model: str, command: list[str], rounds: int) -> list[dict[str, Any]]:
    def once(setting: str) -> Sample:
        given = [f"{name}={value}" for name, value in SETTINGS[setting].items()]
        return run(["env", *given, *command])

    samples = _in_rounds(rounds, once)
    base = samples["none"]
    return [{"model": model, **_row(setting, base, samples[setting])} for setting in SETTINGS]


def _in_rounds(rounds: int, once: Callable[[str], Sample]) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {setting: [] for setting in SETTINGS}
    order = list(SETTINGS)
    for _ in range(rounds):
        for setting in order:
            samples[setting].append(once(setting))
        order.append(order.pop(0))
    return samples


def _row(setting: str, base: list[Sample], found: list[Sample]) -> dict[str, Any]:
    times = [sample.first_result_s for sample in found]
    ratio = paired(times, [sample.first_result_s for sample in base])
    return {
        "setting": setting,
        "first_result_ms": summarize(times).text(1000, 0),
        "ratio": ratio.text(),
        "later_ms": summarize([summarize(sample.calls).median for sample in found]).text(1000, 2),
    }
