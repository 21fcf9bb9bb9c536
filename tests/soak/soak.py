"""Call, load and close for a long time: every result is right, and memory stays where it was.

    python tests/soak/soak.py [--scale 0.1] [--stage "calls, jax" …]

Prints a line for each stage, which is a process of its own. Ends with 1 if a result is wrong, or if
memory grows by more than 2% after the first tenth of a stage. Nothing is timed.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__)
TESTS = HERE.parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import aotbuild  # noqa: E402 - after the path that it is found by

BACKENDS = ("jax", "numpy")
CALLS, LOADS, MIXED = 1_000_000, 10_000, 200_000
THREADS = 16
GROWTH = 1.02
# Below this, growth says nothing: a page more of a heap.
_SLACK = 2 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")

X = np.arange(64, dtype=np.float32).reshape(8, 8)
PARAMS = {"w": X + 1, "b": [X[0], X[1]]}
SHIFT = X * 3


def affine(params: Any, x: Any) -> Any:
    return {"y": x * params["w"] + params["b"][0], "z": [params["b"][1] - x[0]]}


def power(x: Any, n: int) -> Any:
    return x**n


def step(state: Any, x: Any) -> Any:
    return state + x, x.sum(axis=0)


def shift(x: Any, c: Any) -> Any:
    return x + c


# Name, arguments, keywords, and what numpy computes.
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("affine", (PARAMS, X), {}, affine(PARAMS, X)),
    ("affine", (PARAMS,), {"x": X}, affine(PARAMS, X)),
    ("power", (X, 2), {}, power(X, 2)),
    ("power", (X,), {"n": 3}, power(X, 3)),
    ("step", (X, X), {}, step(X, X)),
    ("shift", (X,), {}, shift(X, SHIFT)),
]


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of a tree of lists, tuples and dicts."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        return [leaf for child in tree for leaf in leaves(child)]
    return [tree]


EXPECTED = [leaves(expected) for *_, expected in CASES]


def build_package(root: Path) -> Path:
    """Build what is called; return its `_aot` folder."""
    from support.packages import build, write

    return write(
        root,
        [
            build("affine", affine, {"params": PARAMS, "x": X}),
            build("power", power, {"x": X}, statics={"n": 2}, positional=["x", "n"]),
            build("power", power, {"x": X}, statics={"n": 3}, positional=["x", "n"]),
            build("step", step, {"state": X, "x": X}, donate=["state"]),
            build("shift", shift, {"x": X}, constants={"c": SHIFT}),
        ],
    )


def check(library: Any, number: int) -> None:
    """Make a call and compare what it returns."""
    index = number % len(CASES)
    name, args, kwargs, _ = CASES[index]
    found = leaves(getattr(library, name)(*args, **kwargs))
    if not all(map(np.array_equal, map(np.asarray, found), EXPECTED[index])):
        sys.exit(f"call {number}: {name}: wrong numbers: {found}")


# --- memory ---------------------------------------------------------------------------------------


def resident() -> int:
    """Return how many bytes of memory this process has."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


class Memory:
    """The memory of this process after each tenth of a stage."""

    def __init__(self, count: int) -> None:
        self._tenth = max(count // 10, 1)
        self._first = self._most = 0

    def after(self, done: int) -> None:
        """Measure after each tenth; the process ends if it has grown."""
        if done % self._tenth:
            return
        now = resident()
        if not self._first:
            self._first = now
        self._most = max(self._most, now)
        if now > max(self._first * GROWTH, self._first + _SLACK):
            sys.exit(f"after {done:,}: memory grows: {self}")

    def __str__(self) -> str:
        return f"{self._first / 1e6:.1f} MB after a tenth, {self._most / 1e6:.1f} MB at most"


# --- stages ---------------------------------------------------------------------------------------


def calls(package: Path, arrays: str, scale: float) -> str:
    """Make calls of one library."""
    library, count = aotbuild.load(package, arrays=arrays), int(CALLS * scale)
    memory = Memory(count)
    for number in range(1, count + 1):
        check(library, number)
        memory.after(number)
    return f"{count:,} calls; {memory}"


def loads(package: Path, arrays: str, scale: float) -> str:
    """Load, call and close, again and again."""
    count = int(LOADS * scale)
    memory = Memory(count)
    for number in range(1, count + 1):
        library = aotbuild.load(package, arrays=arrays)
        check(library, number)
        library.close()
        memory.after(number)
    return f"{count:,} loads and closes; {memory}"


class Mixed:
    """Threads that call one library, which some of them close, preload and load again."""

    def __init__(self, package: Path, arrays: str, count: int) -> None:
        self._load = lambda: aotbuild.load(package, arrays=arrays)
        self._shared = self._load()
        self._each = count // THREADS
        self.failed: list[str] = []

    def work(self, seed: int) -> None:
        choose = random.Random(seed)
        try:
            for number in range(self._each):
                self._do_something(choose.randrange(1000))
                check(self._shared, seed + number)
        except BaseException as err:  # noqa: BLE001 - the main thread says which thread failed
            self.failed.append(f"thread {seed}: {type(err).__name__}: {err}")

    def _do_something(self, what: int) -> None:
        if what == 0:
            gc.collect()
        elif what == 1:
            self._shared.close()
        elif what == 2:
            self._shared.preload()
        elif what < 10:
            other = self._load()
            check(other, what)
            other.close()


def threads(package: Path, arrays: str, scale: float) -> str:
    """Mix everything in threads, while signals come whose handler calls."""
    count = int(MIXED * scale)
    mixed, known = Mixed(package, arrays, count), aotbuild.load(package, arrays=arrays)
    for number in range(len(CASES)):  # a handler's first call could interrupt the same first call
        check(known, number)
    numbers = iter(range(1 << 62))
    signal.signal(signal.SIGUSR1, lambda *_: check(known, next(numbers)))
    workers = [threading.Thread(target=mixed.work, args=(seed,)) for seed in range(THREADS)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        signal.raise_signal(signal.SIGUSR1)
        workers[next(numbers) % THREADS].join(0.005)
    if mixed.failed:
        sys.exit("\n".join(mixed.failed))
    return f"{count:,} calls from {THREADS} threads, and {next(numbers) // 2:,} from signals"


STAGES: dict[str, Callable[[Path, str, float], str]] = {
    "calls": calls,
    "loads": loads,
    "threads": threads,
}
NAMES = [f"{stage}, {arrays}" for stage in STAGES for arrays in BACKENDS]


def run_all(names: list[str], scale: float) -> int:
    """Run stages, each in a process of its own; return how many failed."""
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        package = build_package(Path(folder))
        for name in names:
            command = [sys.executable, str(HERE), "--scale", str(scale)]
            command += ["--stage", name, "--package", str(package)]
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                # Threads that meet while they allocate get heaps of their own, which stay.
                env={**os.environ, "MALLOC_ARENA_MAX": "1"},
            )
            failures += bool(done.returncode)
            said = done.stdout.strip() if done.returncode == 0 else done.stderr.strip()
            code = "held" if done.returncode == 0 else f"FAILED, exit code {done.returncode}"
            print(f"{name:<15} {code}: {said}", flush=True)
    return failures


def main() -> int:
    """Run all stages, or one of them in this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="how much of it; CI runs 0.1")
    parser.add_argument("--stage", action="append", choices=NAMES)
    parser.add_argument("--package", type=Path, help="run one stage in this process")
    options = parser.parse_args()
    if options.package is None:
        return int(run_all(options.stage or NAMES, options.scale) > 0)
    stage, arrays = options.stage[0].split(", ")
    print(STAGES[stage](options.package, arrays, options.scale))
    return 0


if __name__ == "__main__":
    sys.exit(main())
