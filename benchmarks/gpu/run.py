"""Measure what build.py built on this machine's GPU, against jax.jit. Needs no network.

    python benchmarks/gpu/run.py FOLDER [--functions NAME,...] [--missing] [--rounds N]

Each call of a function is a fresh process, and the ways of calling take turns: executables built
without tuning, those built with tuning if FOLDER has some, jit, and jit whose persistent cache the
process of jit before it filled. Functions that fail, crash or hang cost their own row. Results go
to benchmarks/results/gpu-CARD.json, function by function; those that are not measured now stay.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from gpu_bench.cases import CASES
from gpu_tables import page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# What a start is measured of: functions with few arguments, of cuBLASLt, cuSOLVER and neither.
STARTS = ("top_k", "matmul_small", "eigh")
GROWING = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
DISTRIBUTIONS = ("jax", "jaxlib", "jax-cuda13-pjrt", "nvidia-cudnn-cu13", "nvidia-cublas")

Found = dict[str, Any]


class Machine:
    """Starts the processes; `limit` is the most seconds that one may take."""

    def __init__(self, folder: Path, limit: float) -> None:
        self.folder = folder.resolve()
        self.limit = limit
        text = (self.folder / "functions.json").read_text(encoding="utf-8")
        self.plan: dict[str, Any] = json.loads(text)
        self.built = [how for how in ("untuned", "tuned") if (self.folder / how).is_dir()]

    def run(self, name: str, how: str, *options: str, **env: str) -> Found:
        """Return what a process found, or its error."""
        here = "cpu" if how == "reference" else self.plan["platform"]
        # The user's cache would make of jit another way.
        kept = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
        env = {**kept, "JAX_PLATFORMS": here, "PYTHONPATH": str(ROOT), **env}
        script, started = str(HERE / "one.py"), repr(time.perf_counter())
        command = [sys.executable, script, str(self.folder), name, how, started, *options]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=env, timeout=self.limit
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"no end after {self.limit:.0f} s"}
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            return {"failed": f"exit status {done.returncode}: {''.join(said[-1:])}"}
        found: Found = json.loads(done.stdout.splitlines()[-1])
        return found

    def references(self, names: list[str]) -> Iterator[tuple[str, Found]]:
        """Compute the right results that are not there yet, several at a time; yield failures."""
        missing = [n for n in names if not (self.folder / "references" / f"{n}.npz").exists()]
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4)) as pool:
            found = zip(missing, pool.map(lambda n: self.run(n, "reference"), missing), strict=True)
            yield from ((name, made) for name, made in found if "failed" in made)

    def measure(self, name: str, rounds: int) -> dict[str, list[Found]]:
        """Return what processes found of a function, by way of calling it, in turns."""
        ways: dict[str, list[Found]] = {way: [] for way in (*self.built, "jit", "cache")}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                for way, found in ways.items():
                    # A way that does not go ends after one try.
                    if not (found and "failed" in found[-1]):
                        found.append(self._way(name, way, cache))
        return ways

    def _way(self, name: str, way: str, cache: str, *options: str, **env: str) -> Found:
        cached = way in ("jit", "cache")
        env |= _caching(cache) if cached else {}
        return self.run(name, "jit" if cached else way, *options, **env)

    def starts(self, name: str, rounds: int) -> dict[str, list[Found]]:
        """Return processes that end with the first result, by way."""
        ours = [f"{how}{backend}" for how in self.built[-1:] for backend in ("", "-numpy")]
        ways: dict[str, list[Found]] = {way: [] for way in ("jit", "cache", *ours)}
        # The same without reserving most of the GPU's memory; jit's cache is as it was.
        ways |= {f"{way}, growing": [] for way in ("cache", *ours)}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                for way, found in ways.items():
                    how, _, growing = way.partition(", ")
                    env = GROWING if growing else {}
                    found.append(self._way(name, how, cache, "first", **env))
        return ways


def _caching(folder: str) -> dict[str, str]:
    return {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def describe() -> dict[str, Any]:
    """Return what a reader needs to judge the numbers."""
    facts = "name,driver_version,memory.total,clocks.max.sm,power.limit"
    try:
        command = ["nvidia-smi", f"--query-gpu={facts}", "--format=csv,noheader"]
        gpus = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except FileNotFoundError:
        gpus = []
    return {
        "gpus": gpus,
        "cpus": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in DISTRIBUTIONS},
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def main() -> int:
    arguments = _parse()
    machine = Machine(arguments.folder, arguments.limit)
    described = describe()
    # By the card's name; without a GPU, by the platform.
    names = [gpu.partition(",")[0] for gpu in described["gpus"]] or [machine.plan["platform"]]
    file = arguments.out / f"gpu-{names[0].replace(' ', '-').lower()}.json"
    document: dict[str, Any] = {"functions": {}, "starts": {}}
    if file.exists():
        document = json.loads(file.read_text(encoding="utf-8"))
    document |= {"machine": described, "small": machine.plan["small"]}
    wanted = arguments.functions.split(",") if arguments.functions else [*machine.plan["functions"]]
    if unknown := set(wanted) - set(machine.plan["functions"]):
        print(f"no such function: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2

    def keep() -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    measured = document["functions"] if arguments.missing else {}
    chosen = [name for name in wanted if name not in measured]
    for name, failure in machine.references(chosen):
        print(f"{name}: no reference: {failure['failed']}", flush=True)
    for name in chosen:
        ways = machine.measure(name, arguments.rounds)
        case = CASES[name]
        document["functions"][name] = {
            "kind": case.kind, "tolerance": case.tolerance, "ways": ways
        }  # fmt: skip
        said = {way: found[-1].get("failed", "measured") for way, found in ways.items()}
        print(f"{name}: {said}", flush=True)
        keep()
    started = document["starts"] if arguments.missing else {}
    for name in (name for name in STARTS if name in wanted and name not in started):
        document["starts"][name] = machine.starts(name, arguments.rounds)
        keep()
    keep()
    print(page(document))
    print(f"wrote {file}")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what build.py made")
    parser.add_argument("--functions", default="", help="names, by comma; default: all")
    parser.add_argument("--missing", action="store_true", help="only what has no results yet")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each way of calling")
    parser.add_argument("--limit", type=float, default=300, help="most seconds of one process")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
