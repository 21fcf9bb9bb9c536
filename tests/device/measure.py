"""Time cold starts and warm calls on this machine's GPU, and keep them with its description.

python measure.py FOLDER      writes FOLDER/<device kind>.json; goes into benchmarks/results/
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

ROUNDS = 5
DISTRIBUTIONS = ("aotbuild", "jax", "jaxlib", "jax-cuda13-pjrt", "nvidia-cudnn-cu13")


def probe(how: str) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).parent / "probe.py"), how]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**document, "process": time.perf_counter() - start}


def machine() -> dict[str, Any]:
    """Return what a reader needs to judge the numbers."""
    query = "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit"
    smi = subprocess.run(["nvidia-smi", query, "--format=csv"], capture_output=True, text=True)
    return {
        "gpu": smi.stdout.splitlines(),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in DISTRIBUTIONS},
    }


def main() -> None:
    rounds: dict[str, list[dict[str, Any]]] = {"aot": [], "jit": []}
    for _ in range(ROUNDS):
        # In turns: a machine that gets slower does so for both.
        for how, found in rounds.items():
            found.append(probe(how))
    first = rounds["aot"][0]
    document = {
        "machine": machine(),
        "rounds": ROUNDS,
        "compilations": {how: [r["compilations"] for r in found] for how, found in rounds.items()},
        "first_result_seconds": _median(rounds, "first_result"),
        "all_results_seconds": _median(rounds, "all_results"),
        "warm_call_seconds": {
            how: {n: statistics.median(r["warm"][n] for r in found) for n in first["warm"]}
            for how, found in rounds.items()
        },
    }
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{first['device_kind'].replace(' ', '-').lower()}.json"
    text = json.dumps(document, indent=2) + "\n"
    file.write_text(text, encoding="utf-8")
    print(text, end="")


def _median(rounds: dict[str, list[dict[str, Any]]], name: str) -> dict[str, float]:
    return {how: statistics.median(r[name] for r in found) for how, found in rounds.items()}


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
