"""Executables that are older than the source: files changed since the build.

Only a project's own folder is compared, as an editable install or a build in place has it. What a
wheel installed is never compared: its files don't change by themselves, and RECORD has their
digests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.format.layout import home_of
from aotbuild.format.sources import HERE, SourceDigests, read_sources
from aotbuild.runtime.api import package_folders

_SITES = ("site-packages", "dist-packages")
_SHOWN = 3
REMEDY = "Compile again: aotbuild build --in-place"


@dataclass(frozen=True)
class Staleness:
    """The project's folder, and the files in it that changed since the build."""

    root: str
    changed: tuple[str, ...]

    def __str__(self) -> str:
        """Return the words for it; empty if nothing changed."""
        if not self.changed:
            return ""
        more = len(self.changed) - _SHOWN
        names = [*self.changed[:_SHOWN], *([f"{more} more"] if more > 0 else [])]
        verb = "is" if len(self.changed) == 1 else "are"
        return (
            f"the executables are older than the source: {', '.join(names)} in {self.root} {verb} "
            f"not what was compiled. {REMEDY}"
        )


def staleness(place: str, header: Mapping[str, Any]) -> Staleness | None:
    """Compare a package's sources with what was compiled; None if they are not to be found.

    `place` is the `_aot` folder. Raises ValueError for a malformed header.
    """
    sources, home = read_sources(header), home_of(header)
    if sources is None or home is None or place.endswith(".whl"):
        return None
    root = next((r for r in _roots(Path(place).absolute(), home, sources) if r), None)
    return None if root is None else Staleness(str(root), sources.changed(root))


def _roots(place: Path, home: str, sources: SourceDigests) -> Iterator[Path | None]:
    """Yield folders that may be the project's, each if it has a module of it; the nearest first."""
    parts = home.split(".")
    beside = _project(_above(place.parent, parts), sources)
    yield beside
    if beside is None and _is_installed(place):
        # An editable install: the package is imported from somewhere else.
        for folder in package_folders(parts):
            yield _project(_above(folder, parts), sources)
    # A build in place, or into another folder of the project.
    yield from (_having(folder, sources) for folder in place.parents)


def _above(folder: Path, parts: list[str]) -> Path | None:
    """Return the folder that a package is imported from, if that is where its folder is."""
    return folder.parents[len(parts) - 1] if list(folder.parts[-len(parts) :]) == parts else None


def _project(import_root: Path | None, sources: SourceDigests) -> Path | None:
    """Return the folder of the project that is imported from a folder."""
    if import_root is None:
        return None
    if sources.import_root == HERE:
        return _having(import_root, sources)
    parts = Path(sources.import_root).parts
    return _having(root, sources) if (root := _above(import_root, list(parts))) else None


def _having(root: Path, sources: SourceDigests) -> Path | None:
    if _is_installed(root) or not any((root / name).is_file() for name in sources.modules):
        return None
    return root


def _is_installed(path: Path) -> bool:
    return any(part in _SITES for part in path.parts)
