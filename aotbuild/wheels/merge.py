"""Merging wheels of one project that were built on several machines, or split, into one wheel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from aotbuild.build.pack import join_functions
from aotbuild.errors import WheelRefused
from aotbuild.spec.canonical import canonical_json, sha256_hex
from aotbuild.spec.index import write_index
from aotbuild.spec.layout import HEADER_KEY, companions_of, whole_header
from aotbuild.spec.left_out import LEFT_OUT, join_left_out, left_out_header, read_left_out
from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_to_json
from aotbuild.spec.signature import Function
from aotbuild.wheels.draft import (
    Artifacts,
    Draft,
    Written,
    absent_stages,
    note_if_left_out,
    split_stages,
    write_all,
)
from aotbuild.wheels.metadata import (
    joined_requirements,
    joined_tag,
    requirements,
    with_requirements,
    with_tags,
    without_companions,
)
from aotbuild.wheels.opened import OpenedWheel, WheelName, open_wheel
from aotbuild.wheels.split import signature_notes

_ALL_PARTS = "Give the base and all of its companions, as `aotbuild split` wrote them."
_MADE_ANEW = ("METADATA", "WHEEL")
_SHOWN = 20
_SAME_SOURCE = "Build all of them from the same sources, with the same functions."
# Header entries that are joined; all others must be equal.
_VERSIONS = ("aotbuild", "jax", "jaxlib")


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

        return write_all([draft], out, stages, notes)


def _draft(wholes: Sequence[Whole], opened: Sequence[OpenedWheel], sbom: bool) -> Draft:
    """Return the wheel to be written; raises WheelRefused with all problems."""
    first = wholes[0].wheel
    problems = [reason for other in wholes[1:] for reason in _differences(other, wholes[0])]
    records, conflicts = unite([whole.records for whole in wholes])
    header, contradictions = joined_header([whole.header for whole in wholes], records)
    lines, unequal = joined_requirements(
        {str(whole.path): requirements(whole.metadata) for whole in wholes},
        header,
        native=any(not record.target.is_portable for record in records),
        portable=any(record.target.is_portable for record in records),
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
        artifacts=Artifacts(first.folder, header, joined_functions(wholes), records, opened),
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
    failed = failed_functions(other) | failed_functions(first)
    yield from function_problems(str(place), other.wheel.functions, first.wheel.functions, failed)
    if with_requirements(other.metadata, []) != with_requirements(first.metadata, []):
        yield f"{place}: METADATA differs in more than Requires-Dist"
    expected, found = (_code(whole.wheel) for whole in (first, other))
    for file in sorted(expected.keys() | found.keys()):
        if expected.get(file) != found.get(file):
            missing = "is missing" if file not in found else "is only here"
            both = file in found and file in expected
            yield f"{place}: {file} {'differs' if both else missing}"


def failed_functions(whole: Whole) -> set[str]:
    """Return the functions of which the header says that all units failed."""
    failed = {unit.function for unit in read_left_out(whole.header).units}
    return failed - {record.function for record in whole.records}


def joined_functions(wholes: Sequence[Whole]) -> list[Function]:
    """Return the functions of all packages; only compiled ones know how calls are padded."""
    failed = {id(whole): failed_functions(whole) for whole in wholes}
    every = [(whole, function) for whole in wholes for function in whole.wheel.functions]
    every.sort(key=lambda pair: pair[1].name not in failed[id(pair[0])])
    return join_functions(function for _, function in every)


def _identity(wheel: OpenedWheel) -> str:
    name, version = wheel.distribution
    return f"{canonicalize_name(name)} {version} ({wheel.name.version})"


def _code(wheel: OpenedWheel) -> dict[str, str]:
    """Return the digest of every file that must be equal in all wheels."""
    new = {f"{wheel.info}/{name}" for name in _MADE_ANEW}
    return {f.name: sha256_hex(f.read()) for f in wheel.files() if f.name not in new}


def function_problems(
    path: str, functions: Iterable[Function], first: Sequence[Function], failed: Collection[str]
) -> list[str]:
    """Return the differences between the functions of a wheel and those of the first one.

    Those in `failed` may be missing: a build left all their units out.
    """
    expected, found = (
        {
            f.name: replace(f, facts=(), aliases=(), references=(), about={})
            for f in some
            if f.name not in failed
        }
        for some in (first, functions)
    )
    lines = [f"{path}: function {name} is missing" for name in sorted(set(expected) - set(found))]
    lines += [
        f"{path}: function {name} is only here" for name in sorted(set(found) - set(expected))
    ]
    lines += [
        f"{path}: function {name} is called in another way"
        for name in sorted(set(found) & set(expected))
        if found[name] != expected[name]
    ]
    return [*lines, *(f"{path}: {reason}" for reason in _reference_problems(first, functions))]


def _reference_problems(first: Iterable[Function], functions: Iterable[Function]) -> Iterator[str]:
    """Yield the places whose static data two wheels compare with that of different templates."""
    known = {(f.name, *place): like for f in first for *place, like in f.references}
    for function in functions:
        for *place, like in function.references:
            other = known.get((function.name, *place), like)
            if other != like:
                yield f"function {function.name} compares {place[0]} with {like}, not with {other}"


def unite(groups: Iterable[Sequence[Record]]) -> tuple[list[Record], list[str]]:
    """Return the records of all groups, and the contradictions between them.

    Equal executables are kept once. Of equal portable artifacts the one made by the oldest jax is
    kept, which newer versions read; a build with several toolchains does the same.
    """
    united: dict[tuple[str, ...], Record] = {}
    problems = []
    for record in (record for group in groups for record in group):
        key = _key(record)
        other = united.setdefault(key, record)
        chosen = _choose(other, record)
        if chosen is None:
            blobs = f"{other.blob.sha256[:12]} and {record.blob.sha256[:12]}"
            problems.append(f"{record}: two executables for the same call and target: {blobs}")
        else:
            united[key] = chosen
    return list(united.values()), problems


def _key(record: Record) -> tuple[str, ...]:
    jaxlib = record.requires.jaxlib or ""
    return record.function, record.signature.key(), str(record.target), jaxlib


def _choose(one: Record, other: Record) -> Record | None:
    """Return which of two records with one key to keep; None if they contradict each other."""
    if one.target.is_portable and _jax_of(one) != _jax_of(other):
        return min(one, other, key=_jax_of)
    same = (one.blob, one.requires, one.calling) == (other.blob, other.requires, other.calling)
    # They differ in measurements or notes at most; the choice must not depend on the order.
    return min(one, other, key=lambda r: canonical_json(record_to_json(r))) if same else None


def _jax_of(record: Record) -> Version:
    return _version(str(record.provenance.get("jax", "")))


def joined_header(
    headers: Sequence[dict[str, Any]], records: Sequence[Record]
) -> tuple[dict[str, Any], list[str]]:
    """Return the joined header, and the contradictions between the headers.

    What a build left out is present if one of `records`, all that there are now, is of it.
    """
    joined = left_out_header(join_left_out(map(read_left_out, headers), records))
    problems = []
    for key in sorted({key for header in headers for key in header} - {LEFT_OUT}):
        values = [header[key] for header in headers if key in header]
        if key in _VERSIONS:
            joined[key] = _join_versions(map(str, values))
        elif any(value != values[0] for value in values):
            shown = " and ".join(sorted({repr(value) for value in values}))
            what = "keep: where" if key == HEADER_KEY else key
            problems.append(f"the indexes differ in {what}: {shown}")
        else:
            joined[key] = values[0]
    return joined, problems


def _join_versions(texts: Iterable[str]) -> str:
    versions = {version for text in texts for version in text.split(", ") if version}
    return ", ".join(sorted(versions, key=lambda version: (_version(version), version)))


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")
