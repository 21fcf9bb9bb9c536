"""Run the benchmarks: `python -m benchmarks [--quick] [--only cold,dispatch]`.

Makes environments of their own below `.bench/`, measures, and writes a JSON file for each part, one
Markdown page and charts below `benchmarks/results/`. What cannot be had here is named with the
reason and does not stop the rest. Ends with 1 if outputs differ from those of jax.jit; a bar that
was missed is no failure, because a busy machine misses them too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.calls import measure_warm
from benchmarks.cold import measure_cold, mismatches
from benchmarks.machine import describe_machine, versions_in
from benchmarks.places import RESULTS
from benchmarks.ready import Ready
from benchmarks.registry import MODELS, System, read_systems
from benchmarks.scripts import SCRIPTS, measure_script
from benchmarks.venvs import Unavailable
from benchmarks.write import read_results, write_results

_ROUNDS = {"transformer": 11, "digits": 5, "mjx": 5}
_QUICK_ROUNDS = {"transformer": 3, "digits": 3, "mjx": 1}
# The mjx step takes a minute to build, and one more for a round: a quick run leaves it out.
_QUICK_MODELS = ("transformer", "digits")
_WARM_ROUNDS, _QUICK_WARM_ROUNDS = 3, 1
# A process of the mjx step through jit takes 15 s, and its latency is that of the executable.
_WARM_MODELS = ("transformer", "digits")


@dataclass(frozen=True)
class Options:
    """What to run and where to."""

    quick: bool
    models: tuple[str, ...]
    systems: list[System]
    results: Path

    def rounds(self) -> dict[str, int]:
        """Return the rounds of cold starts by model."""
        every = _QUICK_ROUNDS if self.quick else _ROUNDS
        return {model: rounds for model, rounds in every.items() if model in self.models}

    def warm_rounds(self) -> dict[str, int]:
        """Return the processes of each system in which calls are timed, by model."""
        rounds = _QUICK_WARM_ROUNDS if self.quick else _WARM_ROUNDS
        return {model: rounds for model in _WARM_MODELS if model in self.models}


def main() -> int:
    """Run what was asked for; return the exit status."""
    arguments = _parse()
    parts = _parts()
    chosen = _names(arguments.only, parts)
    unknown = sorted(set(chosen) - set(parts))
    if unknown:
        print(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    options = Options(
        quick=arguments.quick,
        models=_models(arguments.models, arguments.quick),
        systems=_chosen(arguments.systems, arguments.quick),
        results=arguments.out,
    )
    options.results.mkdir(parents=True, exist_ok=True)
    ready = Ready()
    for part in chosen:
        _run_part(part, parts[part], ready, options)
    written = write_results(ready, options.results)
    for path in written:
        print(f"wrote {path}")
    problems = mismatches(read_results(options.results).get("cold", {}).get("report", {}))
    for problem in problems:
        print(f"failed: {problem}", file=sys.stderr)
    return int(bool(problems))


def _names(only: str, parts: dict[str, Any]) -> list[str]:
    """Return the names of `--only`: all parts without it, no part for `none`."""
    if not only:
        return list(parts)
    return [name for name in only.split(",") if name and name != "none"]


def _run_part(
    name: str, measure: Callable[[Ready, Options], Any], ready: Ready, options: Options
) -> None:
    """Run one part and write its JSON at once, so that what follows can be run by itself."""
    start = time.perf_counter()
    path = options.results / f"{name}.json"
    try:
        report = {**_other_models(path, options), **measure(ready, options)}
    except Unavailable as err:
        print(f"  {name}: not available: {err}", flush=True)
        report = {"not_available": str(err)}
    document = {
        "part": name,
        "quick": options.quick,
        "machine": describe_machine(),
        "seconds": round(time.perf_counter() - start, 1),
        "environments": {
            environment: versions_in(python.parent.parent)
            for environment, python in ready.pythons.items()
        },
        "report": report,
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"  {name}: {document['seconds']:.0f} s", flush=True)


def _other_models(path: Path, options: Options) -> dict[str, Any]:
    """Return what an earlier run of the same kind measured of models that this one leaves out."""
    if not path.exists():
        return {}
    earlier = json.loads(path.read_text())
    if earlier["quick"] != options.quick:
        return {}
    kept = set(MODELS) - set(options.models)
    return {model: report for model, report in earlier["report"].items() if model in kept}


def _parts() -> dict[str, Callable[[Ready, Options], Any]]:
    """Return the parts in their order; each measures with what is ready."""
    parts: dict[str, Callable[[Ready, Options], Any]] = {
        "cold": lambda ready, options: measure_cold(ready, options.systems, options.rounds()),
        "warm": lambda ready, options: measure_warm(ready, options.systems, options.warm_rounds()),
    }
    for script in SCRIPTS:
        parts[script.name] = lambda ready, options, script=script: measure_script(  # type: ignore[misc]
            ready, script, options.quick
        )
    return parts


def _models(names: str, quick: bool) -> tuple[str, ...]:
    if names:
        return tuple(names.split(","))
    return _QUICK_MODELS if quick else MODELS


def _chosen(names: str, quick: bool) -> list[System]:
    """Return the systems that are named; without names all, of which a quick run skips the slow."""
    systems = read_systems()
    wanted = names.split(",")
    if names:
        return [system for system in systems if system.name in wanted]
    return [system for system in systems if not (quick and system.slow)]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few rounds, without mjx and what is slow"
    )
    parser.add_argument(
        "--only", default="", help="parts, by comma, or none; the others stay as they are"
    )
    parser.add_argument("--models", default="", help=f"by comma, of {', '.join(MODELS)}")
    parser.add_argument("--systems", default="", help="systems of systems.toml, by comma")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are written")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
