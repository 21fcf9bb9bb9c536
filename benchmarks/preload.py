"""Measure what `preload` saves, and what mapped constants save: 40 MB of weights, 4 signatures.

Each figure is the median over fresh processes, which take turns. `first` is the first call after
nothing, after `preload()` and after `preload(prime=True)`, over the median of twenty later ones in
the same process. `constants` loads one executable with constants that are mapped and with copies
of them (what anybody may write is not mapped), and holds them in several processes at once: `pss`
is the memory of each, with shared pages divided among those who share them. `threads` preloads
everything with one thread and with two.

    python benchmarks/preload.py [--rounds 7] [--processes 4] [--limit 1.5] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import IO, Any

from small_package import build_package

_LATER = 20
_SIZE = 1024
_SOURCE = f"""
import jax.numpy as jnp
import numpy as np

WEIGHTS = np.random.default_rng(0).standard_normal((10, {_SIZE}, {_SIZE}), dtype=np.float32) / 32
LAYERS = list(WEIGHTS)


def layers(x):
    for weights in LAYERS:
        x = jnp.tanh(x @ weights)
    return x
"""
_MANIFEST = f"""
version: 1
package: layers
functions:
  layers:
    call: layers.model:layers
    args: [x: "f32[batch,{_SIZE}]"]
    dims: {{batch: [1, 2, 4, 8]}}
    constants: hoist
    verify: {{golden: never}}
"""
_MODES = {"mapped": 0o644, "copied": 0o666}

Row = dict[str, Any]


def main() -> int:
    """Run the benchmark; return 1 if a primed first call costs too much."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--limit", type=float, default=1.5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(*options.child)
        return 0
    rows = measure(options.rounds, options.processes)
    for row in rows:
        print(json.dumps(row) if options.json else _describe(row))
    primed = [row["ratio"] for row in rows if row.get("after") == "preload(prime=True)"]
    return int(any(ratio > options.limit for ratio in primed))


def measure(rounds: int, processes: int) -> list[Row]:
    """Return the rows of all three parts."""
    with tempfile.TemporaryDirectory() as folder:
        package = build_package(Path(folder), "layers", _SOURCE, _MANIFEST)
        return [
            *_first_calls(package, rounds),
            *_constants(package, rounds, processes),
            *_threads(package, rounds),
        ]


def _first_calls(package: Path, rounds: int) -> list[Row]:
    kinds = [
        (backend, before) for backend in ("jax", "numpy") for before in ("", "preload", "prime")
    ]
    samples: dict[tuple[str, str], list[Row]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for backend, before in kinds:
            samples[backend, before].append(_ask(package, backend, before))
    titles = {"": "load", "preload": "preload()", "prime": "preload(prime=True)"}
    return [
        {
            "part": "first",
            "backend": backend,
            "after": titles[before],
            **{key: median(row[key] for row in found) for key in found[0]},
            "ratio": median(row["first_ms"] / row["later_ms"] for row in found),
        }
        for (backend, before), found in samples.items()
    ]


def _constants(package: Path, rounds: int, processes: int) -> list[Row]:
    times: dict[str, list[float]] = {mode: [] for mode in _MODES}
    memory: dict[str, list[float]] = {mode: [] for mode in _MODES}
    for _ in range(rounds):
        for mode, bits in _MODES.items():
            for blob in (package / "blobs").iterdir():
                blob.chmod(bits)
            times[mode].append(_ask(package, "numpy", "one")["ahead_ms"])
            memory[mode] += _held(package, processes)
    return [
        {
            "part": "constants",
            "how": mode,
            "load_ms": median(times[mode]),
            "processes": processes,
            **({"pss_mb": median(memory[mode])} if memory[mode] else {}),
        }
        for mode in _MODES
    ]


def _threads(package: Path, rounds: int) -> list[Row]:
    counts = ("1", "2")
    samples: dict[str, list[float]] = {count: [] for count in counts}
    for _ in range(rounds):
        for count in counts:
            samples[count].append(_ask(package, "jax", count)["ahead_ms"])
    return [
        {"part": "threads", "threads": int(count), "preload_ms": median(samples[count])}
        for count in counts
    ]


def _held(package: Path, processes: int) -> list[float]:
    """Return the MB of each of several processes that hold the constants at once."""
    if not Path("/proc/self/smaps_rollup").exists():
        return []
    command = [sys.executable, __file__, "--child", str(package), "numpy", "one"]
    pipe = subprocess.PIPE
    children = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(processes)]
    for child in children:
        _line(child.stdout)
    found = [_pss_mb(child.pid) for child in children]
    for child in children:
        child.communicate()
    return found


def _pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def _ask(package: Path, backend: str, before: str) -> Row:
    command = [sys.executable, __file__, "--child", str(package), backend, before]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    row: Row = json.loads(done.stdout)
    return row


def _line(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    return stream.readline()


def _child(package: str, backend: str, before: str) -> None:
    """Load ahead as told, time a first call and later ones, print, and wait for the parent."""
    import numpy as np

    import aotbuild

    library = aotbuild.load(package, arrays=backend)
    x = np.ones((1, _SIZE), np.float32)
    start = perf_counter()
    if before == "prime":
        library.preload(prime=True)
    elif before == "one":
        library.layers(x)
    elif before:
        library.preload(threads=int(before) if before.isdigit() else None)
    times = [(perf_counter() - start) * 1e3]
    for _ in range(_LATER + 1):
        start = perf_counter()
        np.asarray(library.layers(x))
        times.append((perf_counter() - start) * 1e3)
    ahead, first, *later = times
    row = {"ahead_ms": ahead, "first_ms": first, "later_ms": median(later)}
    print(json.dumps(row), flush=True)
    sys.stdin.read()


def _describe(row: Row) -> str:
    cells = (f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    return ", ".join(cells)


if __name__ == "__main__":
    sys.exit(main())
