"""Measure what a server costs until 8 executables of a chat model are ready, and answered once.

Processes of each way take turns: `jit` with its persistent cache warm, and aotbuild with jax's
arrays and with numpy's. Ready: imports, and every executable loaded. Answered: weights are read,
and each executable was called once. Prints medians of CPU time, time and peak memory, and the
medians of the ratios to `jit` in the same round.

    python benchmarks/server.py [--rounds 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))

from benchmarks.models import chat  # noqa: E402
from benchmarks.server_process import DECODE, PREFILL  # noqa: E402
from benchmarks.small_package import build_package  # noqa: E402

WAYS = ("jit", "jax", "numpy")
FIGURES = ("ready_cpu_ms", "ready_ms", "answered_cpu_ms", "answered_ms", "peak_mb")
_MANIFEST = f"""
version: 1
package: chat
functions:
  prefill:
    call: chat.model:prefill
    args: [weights: {{like: "chat.model:weights"}}, tokens: "i32[1,seq]"]
    dims: {{seq: {list(PREFILL)}}}
    verify: {{golden: never}}
  decode:
    call: chat.model:decode
    args:
      - weights: {{like: "chat.model:weights"}}
      - cache: {{like: "chat.model:cache", dims: [batch]}}
      - token: i32[batch]
      - position: i32[]
    dims: {{batch: {list(DECODE)}}}
    verify: {{golden: never}}
"""


def main() -> int:
    """Print the figures of each way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        rows = measure(folder, options.rounds)
    for row in rows:
        print(json.dumps(row) if options.json else _describe(row))
    return 0


def make(folder: Path) -> None:
    """Write the package, the weights, and JAX's cache below `folder`."""
    source = Path(chat.__file__).read_text("utf-8")
    build_package(folder, "chat", source, _MANIFEST)
    arrays: dict[str, Any] = {
        ".".join(part.key for part in path): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(chat.initialize())
    }
    np.savez(folder / "weights.npz", **arrays)
    shutil.rmtree(folder / "cache", ignore_errors=True)
    _run(folder, "jit")


def measure(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Return the medians of each way, and those of its ratios to `jit`."""
    samples: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            samples[way].append(_run(folder, way))
    return [
        {
            "way": way,
            "rounds": rounds,
            **{name: round(median(sample[name] for sample in found), 1) for name in FIGURES},
            "of_jit": {
                name: round(
                    median(
                        sample[name] / base[name]
                        for sample, base in zip(found, samples["jit"], strict=True)
                    ),
                    3,
                )
                for name in FIGURES
            },
        }
        for way, found in samples.items()
    ]


def _run(folder: Path, way: str) -> dict[str, float]:
    child = _ROOT / "benchmarks" / "server_process.py"
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    path = {"PYTHONPATH": os.pathsep.join([str(folder), str(_ROOT)])}
    printed = subprocess.run(
        [sys.executable, str(child), way, str(folder)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **cache, **path},
    ).stdout
    found: dict[str, float] = json.loads(printed)
    return found


def _describe(row: dict[str, Any]) -> str:
    parts = [f"{name} {row[name]:,.0f} ({row['of_jit'][name]:.2f})" for name in FIGURES]
    return f"{row['way']:6} {', '.join(parts)}"


if __name__ == "__main__":
    sys.exit(main())
