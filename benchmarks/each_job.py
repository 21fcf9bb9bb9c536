"""Measure what each signature of a build costs, beyond the start of a compiler.

Each one is traced and compiled in a process of its own, which imports the project's modules. Builds
a project of 1 and of 16 small functions with one compiler and an empty store; their module imports
nothing but jax, or flax besides. Gives medians of CPU seconds, of both and of each function.

    python benchmarks/each_job.py [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

_FUNCTIONS = 16
_IMPORTS = {"jax": "import jax.numpy as jnp\n", "flax": "import jax.numpy as jnp, flax.linen\n"}
_ENTRY = "  f{0}: {{call: 'proj.m:f{0}', args: [{{x: 'f32[8]'}}]}}\n"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for name in _IMPORTS:
        row = measure(name, options.rounds)
        print(json.dumps(row) if options.json else _describe(row), flush=True)
    return 0


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Return the medians over so many pairs of builds."""
    pairs = [[_seconds(name, count) for count in (1, _FUNCTIONS)] for _ in range(rounds)]
    one, many = (median(column) for column in zip(*pairs, strict=True))
    each = median((more - less) / (_FUNCTIONS - 1) for less, more in pairs)
    return {"imports": name, "one_s": one, "many_s": many, "each_s": each}


def _seconds(name: str, count: int) -> float:
    """Return the CPU seconds of a build and its compiler."""
    with TemporaryDirectory() as folder:
        package = Path(folder, "proj")
        package.mkdir()
        (package / "__init__.py").touch()
        code, entries = _IMPORTS[name], ""
        for number in range(count):
            code += f"def f{number}(x): return jnp.tanh(x) * {number}\n"
            entries += _ENTRY.format(number)
        (package / "m.py").write_text(code)
        Path(folder, "aot.yaml").write_text(f"version: 1\npackage: proj\nfunctions:\n{entries}")
        before = _used()
        subprocess.run(
            [sys.executable, "-m", "aotbuild.cli", "build", "--jobs", "1"],
            cwd=folder,
            env={**os.environ, "AOTBUILD_STORE": str(Path(folder, "store"))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return _used() - before


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _describe(row: dict[str, Any]) -> str:
    return (
        f"{row['imports']}: 1 function {row['one_s']:.1f} s, {_FUNCTIONS} functions "
        f"{row['many_s']:.1f} s, {row['each_s']:.2f} s for each function"
    )


if __name__ == "__main__":
    sys.exit(main())
