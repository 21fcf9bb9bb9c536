"""Write what the last `make zoo` saw into docs/gallery: one table of all, and one on each page.

python tests/zoo/table.py
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.processes import ROOT
from support.zoo import VERSIONS, Program, find_programs, results_folder

GALLERY = ROOT / "docs" / "gallery"
# Where a page has a table of a program's functions, or of all.
PLACE = re.compile(r"<!-- zoo: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
ABSENT = "–"


def main() -> None:
    results = {version: read_results(version) for version in VERSIONS}
    versions = {version: pinned_jax(version) for version in VERSIONS}
    programs = find_programs()
    missing = sorted(unseen(programs, results))
    if missing:
        sys.exit(f"the pages stay as they are: `make zoo` did not see {', '.join(missing)}")
    for page in sorted(GALLERY.glob("*.md")):
        text = page.read_text()
        page.write_text(PLACE.sub(lambda m: table(m[1], programs, results, versions), text))


def read_results(version: str) -> dict[str, Any]:
    paths = (results_folder() / version).glob("*.json")
    return {path.stem: json.loads(path.read_text()) for path in paths}


def unseen(programs: list[Program], results: Any) -> Iterator[str]:
    """Yield what should run on a version and did not, as in a run of a few programs."""
    for version in VERSIONS:
        for program in programs:
            excused = program.reason("missing", version) or program.reason("fails", version)
            if program.name not in results[version] and not excused:
                yield f"{program.name} ({version})"


def pinned_jax(version: str) -> str:
    text = (ROOT / "tests" / "zoo" / f"requirements-{version}.txt").read_text()
    found = re.search(r"^jax==(.*)$", text, re.MULTILINE)
    assert found
    return found[1]


def table(name: str, programs: list[Program], results: Any, versions: dict[str, str]) -> str:
    """Return the table of a program's functions, or of all programs, between its marks."""
    jaxes = [f"jax {versions[version]}" for version in VERSIONS]
    if name == "all":
        head = [
            "libraries",
            "program",
            "functions",
            *jaxes,
            "first calls, jit",
            "first calls, wheel",
        ]
        rows = [program_row(program, results) for program in programs]
    else:
        head = [
            "function",
            *jaxes,
            "numpy backend",
            "first call, jit",
            "first call, wheel",
            "wheel",
        ]
        [program] = [program for program in programs if program.name == name]
        rows = function_rows(program, results)
    lines = [head, ["---"] * len(head), *rows]
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"<!-- zoo: {name} -->\n\n{body}\n\n<!-- end -->"


def program_row(program: Program, results: Any) -> list[str]:
    """Return the row of a program: the worst verdict of each version, and the sum of the times."""
    libraries = ", ".join(re.split("[<>=]", library)[0] for library in program.libraries)
    found = {version: results[version].get(program.name) for version in VERSIONS}
    verdicts = [
        max(
            (
                verdict(program, version, _outcome(found[version], name))
                for name in program.functions
            ),
            key=_badness,
        )
        for version in VERSIONS
    ]
    best = [
        next((o for v in VERSIONS if (o := _outcome(found[v], name))), None)
        for name in program.functions
    ]
    seconds = [outcome["seconds"] for outcome in best if outcome]
    times = [milliseconds(sum(s.get(mode, 0.0) for s in seconds)) for mode in ("jit", "jax")]
    return [libraries, f"`{program.name}`", str(len(program.functions)), *verdicts, *times]


def _badness(said: str) -> tuple[int, float]:
    """Order verdicts from the best to the worst."""
    kind, _, tolerance = said.partition(" ")
    if kind == "within":
        return 1, float(tolerance)
    return (0 if said == "same bits" else 2), 0.0


def function_rows(program: Program, results: Any) -> list[list[str]]:
    found = {version: results[version].get(program.name) for version in VERSIONS}
    size = next((result["size"] for result in found.values() if result), None)
    wheel = f"{size / 1024:,.0f} KiB" if size else ABSENT
    rows = []
    for name in program.functions:
        outcomes = {version: _outcome(found[version], name) for version in VERSIONS}
        verdicts = [verdict(program, version, outcomes[version]) for version in VERSIONS]
        best = next((outcome for outcome in outcomes.values() if outcome), None)
        seconds = best["seconds"] if best else {}
        times = [milliseconds(seconds.get(mode)) for mode in ("jit", "jax")]
        numpy = milliseconds(seconds.get("numpy"))
        rows.append([f"`{program.name}.{name}`", *verdicts, numpy, *times, wheel])
    return rows


def _outcome(result: Any, name: str) -> Any:
    functions = result["functions"] if result else []
    return next((function for function in functions if function["function"] == name), None)


def verdict(program: Program, version: str, outcome: Any) -> str:
    if outcome:
        return (
            "same bits"
            if outcome["is_same_bits"]
            else f"within {program.tolerance(outcome['function']):g}"
        )
    if program.reason("missing", version):
        return "no such library"
    return "fails"


def milliseconds(seconds: float | None) -> str:
    return ABSENT if seconds is None else f"{seconds * 1e3:,.0f} ms"


if __name__ == "__main__":
    main()
