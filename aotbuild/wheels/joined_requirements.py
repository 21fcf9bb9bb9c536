"""Requires-Dist of several wheels as that of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import Version

from aotbuild.build.allowed import exactly
from aotbuild.wheels.metadata import is_added_by_build, name_of

_PINNED = ("jax", "jaxlib")


def joined_requirements(
    wheels: Mapping[str, Sequence[str]], versions: Mapping[str, str], native: bool
) -> tuple[list[str], list[str]]:
    """Return one list for the lines of each wheel, and what contradicts each other.

    The project's own lines must be the same everywhere. What a build added is united; where the
    exact versions of jax or jaxlib differ, all of `versions` (as the index's header lists them) are
    allowed; without `native` executables, also later ones.
    """
    (_, first), *others = wheels.items()
    own = [line for line in first if not is_added_by_build(line)]
    problems = []
    for path, lines in others:
        differing = set(own) ^ {line for line in lines if not is_added_by_build(line)}
        if differing:
            shown = ", ".join(sorted(differing))
            problems.append(f"{path}: the project's own requirements differ: {shown}")
    added = dict.fromkeys(line for lines in wheels.values() for line in lines if line not in own)
    by_name: dict[str, list[str]] = {}
    for line in added:
        by_name.setdefault(name_of(line), []).append(line)
    for name, lines in by_name.items():
        if len(lines) > 1 and name in _PINNED and name not in versions:
            problems.append(f"{', '.join(sorted(lines))}: the indexes do not say their {name}")
        elif len(lines) > 1 and name in _PINNED:
            by_name[name] = [f"{name}{_any_of(versions[name].split(', '), native)}"]
    return [*own, *(line for lines in by_name.values() for line in lines)], problems


def _any_of(versions: Sequence[str], native: bool) -> str:
    """Return the specifier that a build with all these toolchains would have written."""
    return exactly(versions) if native else f">={min(versions, key=Version)}"
