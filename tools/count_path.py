"""Count what is kept small: lines, files, docs and words, and what a build and a first call pass.

    python tools/count_path.py                  # all, with a build's parent and a first call
    python tools/count_path.py --rooms          # what is counted by reading, which runs nothing
    python tools/count_path.py --package PLACE FUNCTION   # a first call of a function of f32[4]

Budgets are those of the design: it exits with 1 if one is exceeded. A first call is counted after
`aotbuild.load`, from `library.f` to the result, in a fresh process for each backend. A build is
that of one function of four lines, with an empty store; only its parent process is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

# Lines, by room: docs/decisions/20-half-the-house.md.
ROOMS = {
    "aotbuild/runtime": 7300,
    "aotbuild/worker": 7000,
    "aotbuild/build": 3900,
    "aotbuild/format": 4550,
    "aotbuild/platforms": 4300,
    "aotbuild/manifest": 2600,
    "aotbuild/record": 3550,
    "aotbuild/cli": 2400,
    "aotbuild/verify": 1600,
    "aotbuild/report": 1300,
    "aotbuild/store": 850,
    "aotbuild/wheels": 950,
    "aotbuild/toolchains": 1150,
    "hatch_plugin": 550,
    "tests": 40_000,
}
MOST_LINES, MOST_FILES = 42_000, 260
MOST_DOCS_WORDS, MOST_DECISIONS, MOST_EXTRAS = 50_000, 20, 8
# What a user can write, as rows and headings of the reference, which tests hold to be complete.
REFERENCE = {
    "manifest keys": ("manifest.md", r"^\| `[a-z_]+` \|", 50),
    "environment variables": ("*.md", r"^\| `AOTBUILD_", 14),
    "commands": ("cli.md", r"^## `aotbuild ", 15),
    "exit codes": ("cli.md", r"^\| [0-9]+ \|", 8),
}
# Files of ours whose functions the parent process of a build passes.
MOST_BUILD_FILES = 80
PATH_BUDGETS = {"files": 25, "functions": 200, "modules": 35, "warm_frames": 0}

MANIFEST = """
version: 1
package: counted
targets: [cpu]
functions:
  double: {call: "counted.model:double", args: [x: "f32[4]"]}
"""
PROJECT = """
[project]
name = "counted"
version = "1.0"
"""
CHILD = """
import json, sys
import numpy as np
place, name, arrays, root = sys.argv[1:]
import aotbuild

OPTIMIZED = 1
passed, frames = set(), []

def watch(frame, event, _):
    code = frame.f_code
    # Modules and class bodies are no functions; what is inside of one belongs to it.
    if event == "call" and code.co_filename.startswith(root) and code.co_flags & OPTIMIZED:
        passed.add((code.co_filename, code.co_qualname.partition(".<locals>")[0]))
        frames.append(code.co_name)

x = np.ones(4, np.float32)
library = aotbuild.load(place, arrays=arrays)
sys.setprofile(watch)
call = getattr(library, name)
result = call(x)
sys.setprofile(None)
call(x)
first = passed.copy()
frames.clear()
sys.setprofile(watch)
call(x)
sys.setprofile(None)
print(json.dumps({
    "files": len({file for file, _ in first}),
    "functions": len(first),
    "modules": sum(name.partition(".")[0] == "aotbuild" for name in sys.modules),
    "warm_frames": len(frames),
    "passed": sorted(f"{file.removeprefix(root)}:{name}" for file, name in first),
    "imported": sorted(n for n in sys.modules if n.partition(".")[0] == "aotbuild"),
}))
"""
BUILD = """
import json, sys, threading

report, root, *arguments = sys.argv[1:]
OPTIMIZED = 1
passed = set()

def watch(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and code.co_flags & OPTIMIZED:
        passed.add(code.co_filename.removeprefix(root))

threading.setprofile(watch)
sys.setprofile(watch)
from aotbuild.cli.__main__ import main
sys.argv[1:] = arguments
try:
    main()
except SystemExit as err:
    code = err.code
sys.setprofile(None)
threading.setprofile(None)
with open(report, "w") as file:
    json.dump(sorted(passed), file)
sys.exit(code)
"""


class Count(NamedTuple):
    """Something counted, and the most that it may be."""

    what: str
    found: int
    most: int | None

    def __str__(self) -> str:
        over = " OVER" if self.most is not None and self.found > self.most else ""
        return (
            f"{self.what:44}{self.found:>8,}{self.most if self.most is not None else '':>8}{over}"
        )


def room_counts() -> list[Count]:
    """Return the lines of each room, and lines and files of all product code."""
    counts = []
    for room, most in ROOMS.items():
        files = _python_files(ROOT / room)
        counts.append(Count(f"{room} ({len(files)} files)", sum(map(_lines, files)), most))
    product = [*_python_files(ROOT / "aotbuild"), *_python_files(ROOT / "hatch_plugin")]
    lines = sum(map(_lines, product))
    counts.append(Count("product lines", lines, MOST_LINES))
    return [*counts, Count("product files", len(product), MOST_FILES)]


def docs_counts() -> list[Count]:
    """Return the size of the docs, and of what they list."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    words = sum(len(page.read_text().split()) for page in pages)
    decisions = len(list((ROOT / "docs/decisions").glob("[0-9]*.md")))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    counts = [
        Count("docs, words", words, MOST_DOCS_WORDS),
        Count("decisions", decisions, MOST_DECISIONS),
        Count("extras", len(extras["optional-dependencies"]), MOST_EXTRAS),
    ]
    for what, (name, pattern, most) in REFERENCE.items():
        texts = [page.read_text() for page in (ROOT / "docs/reference").glob(name)]
        found = sum(len(re.findall(pattern, text, re.MULTILINE)) for text in texts)
        counts.append(Count(what, found, most))
    return counts


def _python_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*.py")) if "__pycache__" not in file.parts]


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def path_counts(place: Path, function: str) -> tuple[list[Count], dict[str, Any]]:
    """Return what a first call passes with each backend, and all that was seen."""
    counts, seen = [], {}
    for arrays in ("numpy", "jax"):
        command = [sys.executable, "-c", CHILD, str(place), function, arrays, f"{ROOT}/aotbuild/"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seen[arrays] = found = json.loads(done.stdout)
        for name, most in PATH_BUDGETS.items():
            limit = most if name != "modules" or arrays == "numpy" else None
            counts.append(Count(f"first call, {arrays}: {name}", found[name], limit))
    return counts, seen


def build(folder: Path) -> tuple[Path, list[str]]:
    """Build a package with one function in a folder.

    Returns its `_aot` folder, and the files whose functions the parent process passed.
    """
    package = folder / "counted"
    package.mkdir()
    (folder / "aot.yaml").write_text(MANIFEST)
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text("def double(x):\n    return x * 2\n")
    out, report = folder / "out" / "_aot", folder / "passed.json"
    arguments = ["build", str(folder / "aot.yaml"), "--out", str(out)]
    command = [sys.executable, "-c", BUILD, str(report), f"{ROOT}/aotbuild/", *arguments]
    environment = {**os.environ, "AOTBUILD_STORE": str(folder / "store")}
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    return out, json.loads(report.read_text())


def main() -> int:
    """Print all counts; return 1 if one is over its budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", action="store_true", help="run nothing")
    parser.add_argument("--package", nargs=2, metavar=("PLACE", "FUNCTION"))
    parser.add_argument("--passed", action="store_true", help="list what is passed")
    options = parser.parse_args()
    counts = room_counts() + docs_counts()
    seen: dict[str, Any] = {}
    if not options.rooms:
        with tempfile.TemporaryDirectory() as folder:
            if options.package:
                place, function = Path(options.package[0]), options.package[1]
            else:
                (place, files), function = build(Path(folder)), "double"
                counts.append(Count("build, parent: files", len(files), MOST_BUILD_FILES))
                seen["build"] = files
            found, calls = path_counts(place, function)
            counts += found
            seen |= calls
    print(*counts, sep="\n")
    if options.passed:
        print(json.dumps(seen, indent=1))
    return int(any(count.most is not None and count.found > count.most for count in counts))


if __name__ == "__main__":
    sys.exit(main())
