"""Writes what was measured: the Markdown page, the charts, and the figures in the documentation."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.places import HERE, ROOT
from benchmarks.ready import Ready
from benchmarks.tables import page
from benchmarks.venvs import Unavailable

DOCS = ROOT / "docs" / "explanation"
_BEGIN = "<!-- Figures: written by `python -m benchmarks --write-docs`. -->"
_END = "<!-- End of the figures. -->"
# The charts that the documentation shows.
CHARTS = ("cold.png", "stages.png")

Results = dict[str, dict[str, Any]]


def read_results(folder: Path) -> Results:
    """Return the document of each part that was measured; GPUs have a report of their own."""
    paths = sorted(path for path in folder.glob("*.json") if not path.name.startswith("gpu-"))
    return {path.stem: json.loads(path.read_text()) for path in paths}


def write_results(ready: Ready, folder: Path) -> list[Path]:
    """Write page and charts of all parts that are there; print the page. Return the paths."""
    text = page(read_results(folder))
    print(text)
    written = folder / "benchmarks.md"
    written.write_text(text)
    paths = [*sorted(folder.glob("*.json")), written]
    try:
        command = [str(ready.python("charts")), str(HERE / "chart.py"), str(folder)]
        subprocess.run(command, check=True)
        paths += sorted(folder.glob("*.png"))
    except (Unavailable, subprocess.CalledProcessError) as err:
        print(f"charts: not available: {err}")
    return paths


def write_docs(folder: Path) -> Path:
    """Put the page between the markers of the documentation, and the charts beside it."""
    path = DOCS / "benchmarks.md"
    path.write_text(between(path.read_text(), page(read_results(folder), level=2)))
    for name in CHARTS:
        if (folder / name).exists():
            shutil.copy(folder / name, DOCS / f"benchmarks-{name}")
    return path


def between(text: str, figures: str) -> str:
    """Return a page with the part between the markers replaced; raises ValueError without them."""
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        msg = f"docs/explanation/benchmarks.md lacks {_BEGIN} or {_END}"
        raise ValueError(msg)
    return f"{head}{begin}\n\n{figures.strip()}\n\n{end}{tail}"
