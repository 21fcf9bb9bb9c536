"""Measure what it costs that functions of other modules are not traced in the same process.

Builds a project of 16 small functions with one compiler and no store: all of them in one module, or
each in a module of its own, which imports nothing but jax, or flax besides. Gives medians of CPU
seconds, of their ratio, and of what each module costs.

    python benchmarks/many_modules.py [--rounds 5] [--json]
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
_ENTRY = "  f{0}: {{call: 'proj.{1}:f{0}', args: [{{x: 'f32[8]'}}]}}\n"


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
    pairs = [[_seconds(name, apart=apart) for apart in (False, True)] for _ in range(rounds)]
    one, many = (median(column) for column in zip(*pairs, strict=True))
    each = median((apart - together) / (_FUNCTIONS - 1) for together, apart in pairs)
    ratio = median(apart / together for together, apart in pairs)
    return {"imports": name, "one_s": one, "many_s": many, "ratio": ratio, "each_s": each}


def _seconds(name: str, *, apart: bool) -> float:
    """Return the CPU seconds of a build and its compiler."""
    with TemporaryDirectory() as folder:
        package = Path(folder, "proj")
        package.mkdir()
        (package / "__init__.py").touch()
        codes: dict[str, str] = {}
        entries = ""
        for number in range(_FUNCTIONS):
            module = f"m{number}" if apart else "m"
            codes.setdefault(module, _IMPORTS[name])
            codes[module] += f"def f{number}(x): return jnp.tanh(x) * {number}\n"
            entries += _ENTRY.format(number, module)
        for module, code in codes.items():
            (package / f"{module}.py").write_text(code)
        Path(folder, "aot.yaml").write_text(f"version: 1\npackage: proj\nfunctions:\n{entries}")
        before = _used()
        subprocess.run(
            [sys.executable, "-m", "aotbuild.cli", "build", "--jobs", "1"],
            cwd=folder,
            env={**os.environ, "AOTBUILD_STORE": "off"},
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
        f"{row['imports']}, {_FUNCTIONS} functions: one module {row['one_s']:.1f} s, a module each "
        f"{row['many_s']:.1f} s, ratio {row['ratio']:.2f}, {row['each_s']:.2f} s for each module"
    )


if __name__ == "__main__":
    sys.exit(main())
