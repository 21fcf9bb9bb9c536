"""Writes what was measured: the Markdown page and the charts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.places import HERE
from benchmarks.ready import Ready
from benchmarks.tables import page
from benchmarks.venvs import Unavailable

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
