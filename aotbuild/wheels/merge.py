"""Merging wheels of one project that were built on several machines, or split, into one wheel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from packaging.utils import canonicalize_name

from aotbuild.errors import WheelRefused
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.index import write_index
from aotbuild.spec.layout import companions_of, whole_header
from aotbuild.spec.record import Record
from aotbuild.wheels.draft import (
    Artifacts,
    Draft,
    Written,
    absent_stages,
    note_if_left_out,
    split_stages,
    write_all,
)
from aotbuild.wheels.joining import (
    function_problems,
    joined_header,
    joined_requirements,
    joined_tag,
    unite,
    with_tags,
)
from aotbuild.wheels.metadata import requirements, with_requirements, without_companions
from aotbuild.wheels.opened import OpenedWheel, WheelName, open_wheel
from aotbuild.wheels.split import signature_notes

_ALL_PARTS = "Give the base and all of its companions, as `aotbuild split` wrote them."


@dataclass(frozen=True)
class Whole:
    """A complete package: the wheel with the code, and its contents before it was split."""

    wheel: OpenedWheel
    parts: tuple[OpenedWheel, ...]
    header: dict[str, Any]
    records: tuple[Record, ...]
    metadata: str

    @property
    def path(self) -> Path:
        """The wheel with the code."""
        return self.wheel.path


def make_whole(wheels: Sequence[OpenedWheel]) -> list[Whole]:
    """Return each package of the wheels, complete; WheelRefused if a part is missing."""
    bases = [wheel for wheel in wheels if wheel.part is None]
    digests = {base.split for base in bases}
    orphans = [wheel for wheel in wheels if wheel.part and wheel.split not in digests]
    if orphans:
        problem = "a companion without the base that it was split from"
        raise WheelRefused(str(orphans[0].path), problem, [], _ALL_PARTS)
    return [_whole(base, wheels) for base in bases]


def _whole(base: OpenedWheel, wheels: Sequence[OpenedWheel]) -> Whole:
    header = whole_header(base.index.header)
    if base.split is None:
        return Whole(base, (), header, base.records, base.metadata)
    expected = companions_of(base.index.header)
    found = {wheel.part: wheel for wheel in wheels if wheel.part and wheel.split == base.split}
    missing = [name for part, name in expected.items() if part not in found]
    if missing:
        raise WheelRefused(str(base.path), "companions are missing", missing, _ALL_PARTS)
    parts = tuple(found[part] for part in expected)
    records = (*base.records, *(record for part in parts for record in part.records))
    digest = sha256_hex(write_index(header, base.functions, records))
    if digest != base.split:
        problem = "with its companions, this is not the package that was split"
        reasons = [f"expected the index {base.split}", f"found    the index {digest}"]
        raise WheelRefused(str(base.path), problem, reasons, _ALL_PARTS)
    metadata = without_companions(base.metadata, expected, base.distribution[1])
    return Whole(base, parts, header, records, metadata)


_MADE_ANEW = ("METADATA", "WHEEL")
_SHOWN = 20
_SAME_SOURCE = "Build all of them from the same sources, with the same functions."


def merge(wheels: Sequence[Path], out: Path) -> Written:
    """Write the one wheel that holds the executables of all `wheels` into a folder.

    Raises WheelRefused if a wheel fails a check, a part of a split wheel is missing, the wheels are
    of different projects, versions or code, or they contradict each other.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(open_wheel(path)) for path in dict.fromkeys(wheels)]
        wholes = make_whole(opened)
        if len(opened) < 2:
            remedy = "Give at least two wheels."
            raise WheelRefused(str(opened[0].path), "nothing to merge", [], remedy)
        sbom, notes = note_if_left_out(opened)
        notes += absent_stages(opened) + signature_notes(opened)
        draft = _draft(wholes, opened, sbom)

        def stages(draft: Draft, path: Path) -> Iterator[Path]:
            return split_stages(opened, draft.artifacts.records, path)

        written = write_all([draft], out, stages)
    return Written(written.wheels, written.beside, tuple(notes))


def _draft(wholes: Sequence[Whole], opened: Sequence[OpenedWheel], sbom: bool) -> Draft:
    """Return the wheel to be written; raises WheelRefused with all problems."""
    first = wholes[0].wheel
    problems = [reason for other in wholes[1:] for reason in _differences(other, wholes[0])]
    header, contradictions = joined_header([whole.header for whole in wholes])
    records, conflicts = unite([whole.records for whole in wholes])
    lines, unequal = joined_requirements(
        {str(whole.path): requirements(whole.metadata) for whole in wholes},
        header,
        native=any(not record.target.is_portable for record in records),
    )
    tags = [whole.wheel.name.tag for whole in wholes]
    tag = joined_tag(tags)
    if tag is None:
        problems.append(f"no tag of a wheel says just {', '.join(sorted(set(tags)))}")
    problems += [*contradictions, *conflicts, *unequal]
    if problems or tag is None:
        _refuse(wholes, problems)
    wheel = first.archive.read(f"{first.info}/WHEEL").decode("utf-8")
    metadata = with_requirements(wholes[0].metadata, lines)
    return Draft(
        name=WheelName(first.name.distribution, first.name.version, tag),
        info=first.info,
        distribution=first.distribution,
        model=first.model,
        files=list(first.files()),
        artifacts=Artifacts(first.folder, header, first.functions, records, opened),
        changed={"METADATA": metadata.encode(), "WHEEL": with_tags(wheel, tag).encode()},
        sbom=sbom,
    )


def _refuse(wholes: Sequence[Whole], problems: Sequence[str]) -> NoReturn:
    places = ", ".join(str(whole.path) for whole in wholes)
    more = len(problems) - _SHOWN
    shown = [*problems[:_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    raise WheelRefused(places, "they cannot be one wheel", shown, _SAME_SOURCE)


def _differences(other: Whole, first: Whole) -> Iterator[str]:
    """Yield the differences to the first wheel in what must be equal."""
    place = other.path
    pairs = [_identity(whole.wheel) for whole in (first, other)]
    if pairs[0] != pairs[1]:
        yield f"{place}: expected {pairs[0]}, found {pairs[1]}"
        return
    if other.wheel.folder != first.wheel.folder:
        yield f"{place}: expected {first.wheel.folder}, found {other.wheel.folder}"
        return
    yield from function_problems(str(place), other.wheel.functions, first.wheel.functions)
    if with_requirements(other.metadata, []) != with_requirements(first.metadata, []):
        yield f"{place}: METADATA differs in more than Requires-Dist"
    expected, found = (_code(whole.wheel) for whole in (first, other))
    for file in sorted(expected.keys() | found.keys()):
        if expected.get(file) != found.get(file):
            missing = "is missing" if file not in found else "is only here"
            both = file in found and file in expected
            yield f"{place}: {file} {'differs' if both else missing}"


def _identity(wheel: OpenedWheel) -> str:
    name, version = wheel.distribution
    return f"{canonicalize_name(name)} {version} ({wheel.name.version})"


def _code(wheel: OpenedWheel) -> dict[str, str]:
    """Return the digest of every file that must be equal in all wheels."""
    new = {f"{wheel.info}/{name}" for name in _MADE_ANEW}
    return {f.name: sha256_hex(f.read()) for f in wheel.files() if f.name not in new}
