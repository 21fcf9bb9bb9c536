"""Measure the comparison of CPU executables with their records, as a share of a cold start.

For programs of several sizes: what reading and comparing takes, what importing the module that does
it takes in a fresh process, and what loading the package and its first call take there.

    python benchmarks/stated.py [--rounds 9] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from small_package import build_package

_SOURCE = """
import jax.numpy as jnp

def small(x):
    return jnp.sin(x) * 2

def solved(a, b):
    return jnp.linalg.solve(a, b)

def many(x):
    return tuple(x * number + jnp.cos(x + number) for number in range(300))
"""
_MANIFEST = """
version: 1
package: stated
functions:
  small: {call: "stated.model:small", args: [x: "f32[16]"]}
  solved: {call: "stated.model:solved", args: [a: "f32[16, 16]", b: "f32[16]"]}
  many: {call: "stated.model:many", args: [x: "f32[16]"]}
"""
# Prints the size of the executable, and four times in µs.
_CHILD = """
import json, sys
from time import perf_counter
import jax, numpy as np
import aotbuild
name, place = sys.argv[1:]
library = aotbuild.load(place)
import aotbuild.format.aval, aotbuild.format.record  # which every load has
start = perf_counter()
from aotbuild.runtime.stated import read_stated
from aotbuild.runtime.stated_check import check_stated
imported = perf_counter() - start
shapes = {"small": [(16,)], "solved": [(16, 16), (16,)], "many": [(16,)]}[name]
values = [np.eye(*shape) if len(shape) == 2 else np.ones(shape) for shape in shapes]
arguments = [value.astype("float32") for value in values]
jax.devices()
start = perf_counter()
jax.block_until_ready(getattr(library, name)(*arguments))
called = perf_counter() - start
from aotbuild.runtime.locate import locate
from aotbuild.runtime.source import open_index
source = locate(place)
(record,) = (r for r in open_index(source).records(name) if r.target.platform == "cpu")
data = source.read(record.blob.path)
times = []
for _ in range(20):
    start = perf_counter()
    check_stated(record, read_stated(record, data))
    times.append(perf_counter() - start)
print(json.dumps([len(data), *(1e6 * t for t in (imported, times[0], min(times), called))]))
"""


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        package = build_package(Path(folder), "stated", _SOURCE, _MANIFEST)
        for name in ("small", "solved", "many"):
            row = measure(name, package, options.rounds)
            print(json.dumps(row) if options.json else _describe(row), flush=True)
    return 0


def measure(name: str, package: Path, rounds: int) -> dict[str, Any]:
    """Return the medians over so many processes."""
    command = [sys.executable, "-c", _CHILD, name, str(package)]
    runs = [json.loads(subprocess.check_output(command, text=True)) for _ in range(rounds)]
    size, imported, first, repeated, called = (median(column) for column in zip(*runs, strict=True))
    return {
        "function": name,
        "bytes": int(size),
        "import_us": imported,
        "first_us": first,
        "repeated_us": repeated,
        "first_call_us": called,
        "share": first / called,
    }


def _describe(row: dict[str, Any]) -> str:
    return (
        f"{row['function']}, {row['bytes']} bytes: import {row['import_us']:.0f} µs, "
        f"comparison {row['first_us']:.0f} µs (again {row['repeated_us']:.0f} µs), "
        f"first call {row['first_call_us']:.0f} µs, share {row['share']:.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
