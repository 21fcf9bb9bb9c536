"""Measure what counting calls by signature adds to a warm call, by the number of leaves.

python benchmarks/counting.py [--leaves 2 20 200]
"""

from __future__ import annotations

import argparse
import tempfile
import timeit
from pathlib import Path
from typing import Any

import jax
import numpy as np
from small_package import build_package

import aotbuild

_SOURCE = """
def total(tree):
    return sum(tree.values())
"""
_CALLS = 2000


def main() -> None:
    """Print microseconds per call, without counting and with it, for both backends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, nargs="+", default=[2, 20, 200])
    for leaves in parser.parse_args().leaves:
        tree = {f"leaf{number}": np.ones(4, np.float32) for number in range(leaves)}
        with tempfile.TemporaryDirectory() as root:
            folder = build_package(Path(root), "counted", _SOURCE, _manifest(leaves))
            for arrays, argument in (("jax", jax.device_put(tree)), ("numpy", tree)):
                library = aotbuild.load(folder, arrays=arrays)
                plain = _microseconds(library, argument)
                library.count_calls()
                counted = _microseconds(library, argument)
                shown = f"{plain:.1f} us, counted {counted:.1f} us"
                print(f"{leaves} leaves, {arrays}: {shown}")


def _manifest(leaves: int) -> str:
    tree = ", ".join(f'leaf{number}: "f32[4]"' for number in range(leaves))
    return f"""
version: 1
package: counted
functions:
  total: {{call: "counted.model:total", args: [tree: {{{tree}}}], verify: {{golden: never}}}}
"""


def _microseconds(library: Any, argument: Any) -> float:
    library.total(argument)
    seconds = timeit.repeat(lambda: library.total(argument), number=_CALLS, repeat=7)
    return min(seconds) / _CALLS * 1e6


if __name__ == "__main__":
    main()
