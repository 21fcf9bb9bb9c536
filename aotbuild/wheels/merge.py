"""Merging the wheels that one project's builds made on several machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from packaging.utils import canonicalize_name

from aotbuild.build.wheel_metadata import joined_tag, with_tags
from aotbuild.errors import WheelRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.words import quote
from aotbuild.wheels.join import join
from aotbuild.wheels.metadata import joined_requirements, requirements, with_requirements
from aotbuild.wheels.wheel_files import NewWheel, OpenedWheel, WheelName, open_wheel

_MADE_ANEW = ("METADATA", "WHEEL")
_SHOWN = 20
_SAME_SOURCE = "Build all of them from the same sources."


def merge_wheels(wheels: Sequence[Path], out: Path, fallback: str | None = None) -> Path:
    """Write the one wheel that holds the executables of all `wheels` into a folder.

    `fallback` replaces that of their manifests, which otherwise must be the same. Raises
    WheelRefused if a wheel fails a check, the wheels are of different projects, versions or code,
    or they contradict each other.
    """
    if len({*wheels}) < 2:
        places = ", ".join(map(str, wheels)) or "no wheel"
        raise WheelRefused(places, "nothing to merge", [], "Give at least two.")
    with ExitStack() as stack:
        opened = [stack.enter_context(open_wheel(path)) for path in dict.fromkeys(wheels)]
        return _joined_wheel(opened, fallback).write(out)


def _joined_wheel(opened: Sequence[OpenedWheel], fallback: str | None) -> NewWheel:
    """Return the wheel to be written; raises WheelRefused with all problems."""
    first = opened[0]
    folder, contradictions = join([wheel.built for wheel in opened], fallback)
    lines, unequal = joined_requirements(
        {str(wheel.path): requirements(wheel.metadata) for wheel in opened},
        folder.header,
        native=any(not record.target.is_portable for record in folder.records),
        portable=any(record.target.is_portable for record in folder.records),
    )
    problems = [reason for other in opened[1:] for reason in _differences(other, first)]
    problems += [*contradictions, *unequal]
    tags = [wheel.name.tag for wheel in opened]
    tag = joined_tag(tags)
    if tag is None:
        problems.append(f"no tag of a wheel says just {', '.join(sorted(set(tags)))}")
    if problems or tag is None:
        more = len(problems) - _SHOWN
        shown = [*problems[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        places = ", ".join(str(wheel.path) for wheel in opened)
        raise WheelRefused(places, "they cannot be one package", shown, _SAME_SOURCE)
    wheel_file = first.archive.read(f"{first.info}/WHEEL").decode("utf-8")
    return NewWheel(
        name=WheelName(first.name.distribution, first.name.version, tag),
        info=first.info,
        model=first.model,
        files=first.files(),
        place=first.folder,
        folder=folder,
        changed={
            "METADATA": with_requirements(first.metadata, lines).encode(),
            "WHEEL": with_tags(wheel_file, tag).encode(),
        },
    )


def _differences(other: OpenedWheel, first: OpenedWheel) -> Iterator[str]:
    """Yield the differences to the first wheel in what must be equal."""
    place = other.path
    pairs = [_identity(wheel) for wheel in (first, other)]
    if pairs[0] != pairs[1]:
        yield f"{place}: expected {pairs[0]}, found {pairs[1]}"
        return
    if other.folder != first.folder:
        yield f"{place}: expected {first.folder}, found {other.folder}"
        return
    expected, found = (with_requirements(wheel.metadata, []) for wheel in (first, other))
    if expected != found:
        yield f"{place}: METADATA: {_first_difference(expected, found)}"
    here, there = (_code(wheel) for wheel in (first, other))
    for file in sorted(here.keys() | there.keys()):
        if here.get(file) != there.get(file):
            missing = "is missing" if file not in there else "is only here"
            yield f"{place}: {file} {'differs' if file in here and file in there else missing}"


def _first_difference(expected: str, found: str) -> str:
    """Return the first line that two texts differ in, as both have it."""
    pairs = zip_longest(expected.splitlines(), found.splitlines(), fillvalue="")
    one, other = next(pair for pair in pairs if pair[0] != pair[1])
    return f"expected {quote(one)}, found {quote(other)}"


def _identity(wheel: OpenedWheel) -> str:
    name, version = wheel.distribution
    return f"{canonicalize_name(name)} {version} ({wheel.name.version})"


def _code(wheel: OpenedWheel) -> dict[str, str]:
    """Return the digest of every file that must be equal in all wheels."""
    new = {f"{wheel.info}/{name}" for name in _MADE_ANEW}
    return {f.name: sha256_hex(f.read()) for f in wheel.files() if f.name not in new}
