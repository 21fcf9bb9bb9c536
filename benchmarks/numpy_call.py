"""Profile a warm numpy call; also one side of `dispatch.py --backend numpy-alone`.

`profile` measures in a process without jax, in blocks that take turns: arrays that begin where
numpy's own mostly do, arrays aligned to 64 bytes, and the C++ object without the kernel around it;
then imports jax, and measures again. Where `perf` may sample (see `first_call_perf.py`), it also
prints the share of each step inside the C++ dispatch.

`kernel` and `jit` call in a process of their own: a block for each line they read, whose µs a call
they print.

    python benchmarks/numpy_call.py profile [--blocks 1000] [--json]
    python benchmarks/numpy_call.py {kernel,jit} --package FOLDER [--signatures 1]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
from small_package import build_affine

import aotbuild

_CALLS = 2000
_IN_BLOCK = 200
# In bytes behind a multiple of 64: where arrays that malloc gave memory for begin.
_AS_NUMPY = 16
_ENTRY = "PjitFunction::Call"
# What the C++ dispatch calls itself, in the order of a call (jaxlib's pjit.cc).
_STEPS = {
    "tree and signature": r"ParseArguments|Signature|JitConfigs|c_equal|AbslHash",
    "arguments become buffers": r"DevicePut",
    "execution": r"PjRtLoadedExecutable::Execute",
    "results become numpy's": r"Unflatten",
    "buffers of arguments are given back": r"PjRtArray::~PjRtArray",
}

Call = Callable[..., Any]


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["profile", "kernel", "jit"])
    parser.add_argument("--package")
    parser.add_argument("--signatures", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.what != "profile":
        serve(options.what, options.package, options.signatures)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        package = options.package or str(build_affine(Path(folder), [1]))
        for row in [*_steps(package), *_ways(package, options.blocks)]:
            print(json.dumps(row) if options.json else _describe(row), flush=True)
    return 0


def serve(what: str, package: str, signatures: int) -> None:
    """Call a block for each line of stdin; print what a call took, in µs."""
    function = _jit() if what == "jit" else aotbuild.load(package, arrays="numpy").affine
    calls = [arguments(size, _AS_NUMPY) for size in range(1, signatures + 1)]
    for _ in range(2):
        time_calls(function, calls)
    for _ in sys.stdin:
        print(time_calls(function, calls), flush=True)


def _jit() -> Call:
    import jax
    from dispatch import affine

    jitted = jax.jit(affine)

    def both_ways(params: dict[str, Any], x: Any) -> Any:
        return np.asarray(jitted(params, x))

    return both_ways


def arguments(size: int, apart: int) -> tuple[dict[str, Any], Any]:
    """Return arguments of `affine` that begin `apart` bytes behind a multiple of 64."""
    w, b, x = (_array(size, apart) for _ in range(3))
    return {"w": w, "b": b}, x


def _array(size: int, apart: int) -> Any:
    space = np.zeros(4 * size + 128, np.uint8)
    start = -space.ctypes.data % 64 + apart
    return space[start : start + 4 * size].view(np.float32)


def time_calls(function: Call, calls: list[Any], number: int = _CALLS) -> float:
    """Return what a call takes, in µs."""
    rounds = max(1, number // len(calls))
    start = perf_counter()
    for _ in range(rounds):
        for params, x in calls:
            function(params, x)
    return (perf_counter() - start) / (rounds * len(calls)) * 1e6


def _ways(package: str, blocks: int) -> list[dict[str, Any]]:
    """Return µs of each way to call, without jax and then with it."""
    kernel = aotbuild.load(package, arrays="numpy").affine
    usual, aligned = [arguments(1, _AS_NUMPY)], [arguments(1, 0)]
    ways: dict[str, tuple[Call, list[Any]]] = {
        "arrays where numpy's begin": (kernel, usual),
        "aligned arrays": (kernel, aligned),
        "the same, its `__call__` at once": (kernel.__call__, aligned),
    }
    rows = []
    for process in ("without jax", "jax imported"):
        if process == "jax imported":
            _jit()
        samples: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(blocks):
            for name in random.sample(list(ways), len(ways)):
                function, calls = ways[name]
                samples[name].append(time_calls(function, calls, _IN_BLOCK))
        rows += [
            {"process": process, "way": name, "us": _quiet(taken)}
            for name, taken in samples.items()
        ]
    return rows


def _quiet(samples: list[float]) -> float:
    """Return the mean of the fastest fifth: what others do only slows a block."""
    return round(mean(sorted(samples)[: max(1, len(samples) // 5)]), 2)


def _steps(package: str) -> list[dict[str, Any]]:
    """Return the share of each step of the C++ dispatch, by samples of its stacks."""
    perf = shutil.which("perf")
    if perf is None:
        print("the steps are not sampled: perf is not installed", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as folder:
        recorded = str(Path(folder, "samples"))
        options = ["-q", "-F", "1500", "--call-graph", "dwarf,16384", "-e", "cpu-clock"]
        command = [sys.executable, __file__, "kernel", "--package", package]
        record = [perf, "record", *options, "-o", recorded, "--", *command]
        done = subprocess.run(record, input="\n" * 60, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"the steps are not sampled: {done.stderr.strip()}", file=sys.stderr)
            return []
        script = [perf, "script", "--no-inline", "-i", recorded, "-F", "ip,sym"]
        printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    counted = Counter(filter(None, map(_step_of, printed.split("\n\n"))))
    total = max(1, sum(counted.values()))
    names = [*_STEPS, "the rest"]
    return [{"step": name, "share": round(counted[name] / total, 3)} for name in names]


def _step_of(stack: str) -> str | None:
    """Return the step of a stack, innermost frame first; None outside of the dispatch."""
    frames = stack.strip().splitlines()
    inside = next((i for i, frame in enumerate(frames) if _ENTRY in frame), None)
    if inside is None:
        return None
    called = frames[inside - 1] if inside else ""
    return next((name for name, names in _STEPS.items() if re.search(names, called)), "the rest")


def _describe(row: dict[str, Any]) -> str:
    if "step" in row:
        return f"{row['step']:<36} {row['share']:>6.1%}"
    return f"{row['process']:<13} {row['way']:<36} {row['us']:>6.2f} µs"


if __name__ == "__main__":
    sys.exit(main())
