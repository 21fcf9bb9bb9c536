"""What hatchling ships: never a package that an earlier build wrote into the project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from hatchling.builders.config import BuilderConfig
from pathspec import GitIgnoreSpec

_SHOWN = 3


def leave_out(config: BuilderConfig, patterns: Iterable[str]) -> None:
    """Have hatchling ship no file that patterns of git match, whatever else selects it.

    `exclude` would not do: what `artifacts` names is shipped although it is excluded.
    """
    spec, selects = GitIgnoreSpec.from_lines(patterns), config.include_path

    def include_path(relative_path: str, **options: bool) -> bool:
        return not spec.match_file(relative_path) and selects(relative_path, **options)

    config.include_path = include_path  # type: ignore[method-assign]


def shipped_otherwise(wheel: Path, config: Any, built: Path, place: str) -> str | None:
    """Return how the files below `place` in a wheel differ from those that were built, if at all.

    `built` is their folder, and what its index names is all that it holds. What `force-include` of
    the project adds is seen by nothing before.
    """
    files = (path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file())
    expected = Counter(config.get_distribution_path(f"{place}/{name}") for name in files)
    folder = config.get_distribution_path(place)
    with ZipFile(wheel) as archive:
        found = Counter(n for n in archive.namelist() if n.startswith(f"{folder}/"))
    more, missing = sorted((found - expected).keys()), sorted((expected - found).keys())
    if not more and not missing:
        return None
    names = more or missing
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    what = f"holds {shown}, which this build did not make" if more else f"lacks {shown}"
    return (
        f"{wheel.name} {what}: force-include or another build hook selects files of "
        f"{place}, or leaves them out; it is removed"
    )
