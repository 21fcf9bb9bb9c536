"""Where the presets of GPUs are: in the installed package, or in the source tree around it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2]
_FOLDER = Path("configs", "targets")


@cache
def preset_files() -> dict[str, Path]:
    """Return the file of every preset that aotbuild brings, by its name, sorted."""
    for place in (_PACKAGE, _PACKAGE.parent):
        files = sorted((place / _FOLDER).glob("*.yaml"))
        if files:
            return {file.stem: file for file in files}
    return {}


def is_file_name(gpu: str) -> bool:
    """Return whether a GPU is named by a file of the user's rather than by a preset."""
    return "/" in gpu or gpu.endswith(".yaml")
