"""Measure `import aotbuild`: whole processes with and without it, in turn, and its modules.

python benchmarks/imports.py [--rounds 25] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from time import perf_counter
from typing import Any

_STATEMENTS = {
    "aotbuild": "import aotbuild",
    "aotbuild, used": "import aotbuild; aotbuild.load",
    "numpy": "import numpy",
}


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.rounds)
    for row in rows:
        print(json.dumps(row) if options.json else _describe(row))
    return 0


def measure(rounds: int) -> list[dict[str, Any]]:
    """Return what each statement adds to an empty process, in ms, and how many modules it loads."""
    for statement in _STATEMENTS.values():
        _time(statement)
    extra: dict[str, list[float]] = {name: [] for name in _STATEMENTS}
    for _ in range(rounds):
        for name, statement in _STATEMENTS.items():
            extra[name].append(_time(statement) - _time("pass"))
    return [
        {"import": name, "ms": median(times) * 1000, "modules": _modules(_STATEMENTS[name])}
        for name, times in extra.items()
    ]


def _time(statement: str) -> float:
    start = perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return perf_counter() - start


def _modules(statement: str) -> int:
    """Return how many modules a statement loads."""
    code = f"import sys; before = len(sys.modules); {statement}; print(len(sys.modules) - before)"
    return int(subprocess.check_output([sys.executable, "-c", code]))


def _describe(row: dict[str, Any]) -> str:
    return f"import {row['import']}: {row['ms']:.1f} ms, {row['modules']} modules"


if __name__ == "__main__":
    sys.exit(main())
