"""One package opened by both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aotbuild
from aotbuild.runtime.library import Library
from support.packages import Built, write


def both(root: Path, *built: Built, **options: Any) -> tuple[Library, Library]:
    folder = write(root, built, **options)
    return aotbuild.load(folder), aotbuild.load(folder, arrays="numpy")


def with_numpy(root: Path, *built: Built, **options: Any) -> Library:
    return both(root, *built, **options)[1]
