"""First and later calls inside a process."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.cold import in_rounds, that_run
from benchmarks.process import Sample, run
from benchmarks.ready import Ready
from benchmarks.registry import System

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


def _described(samples: list[Sample]) -> Report:
    return {
        "first_s": [sample.stages["first call"] for sample in samples],
        "later_s": [median(sample.calls) for sample in samples],
    }
