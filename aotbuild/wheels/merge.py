"""Merging wheels of one project that were built on several machines, or split, into one wheel."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from aotbuild.errors import WheelRefused
from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.index import SOURCES
from aotbuild.format.layout import HEADER_KEY
from aotbuild.format.left_out import LEFT_OUT, join_left_out, left_out_header, read_left_out
from aotbuild.format.record import Record
from aotbuild.format.record_json import record_to_json
from aotbuild.format.shard import SHARD
from aotbuild.format.sources import join_sources
from aotbuild.format.words import quote
from aotbuild.wheels.agreement import Built, disagreements
from aotbuild.wheels.draft import (
    Artifacts,
    Draft,
    Written,
    absent_stages,
    split_stages,
    write_all,
)
from aotbuild.wheels.functions import join, partial_notes
from aotbuild.wheels.metadata import (
    joined_requirements,
    joined_tag,
    requirements,
    with_requirements,
    with_tags,
)
from aotbuild.wheels.opened import OpenedWheel, WheelName, open_wheel
from aotbuild.wheels.shards import join_shards, read_part
from aotbuild.wheels.whole import Whole, make_whole

_MADE_ANEW = ("METADATA", "WHEEL")
_SHOWN = 20
_SAME_SOURCE = "Build all of them from the same sources."
_FALLBACK = "fallback"
# Header entries that are joined; all others must be equal.
_VERSIONS = ("aotbuild", "jax", "jaxlib")


def merge(wheels: Sequence[Path], out: Path, fallback: str | None = None) -> Written:
    """Write the one wheel that holds the executables of all `wheels` into a folder.

    `fallback` replaces that of their manifests, which otherwise must be the same. Raises
    WheelRefused if a wheel fails a check, a part of a split wheel is missing, the wheels are of
    different projects, versions or code, or they contradict each other.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(open_wheel(path)) for path in dict.fromkeys(wheels)]
        wholes = make_whole(opened)
        shards = any(SHARD in wheel.index.header for wheel in opened)
        if len(opened) < 2 and not shards:
            remedy = "Give at least two wheels."
            raise WheelRefused(str(opened[0].path), "nothing to merge", [], remedy)
        notes = absent_stages(opened)
        if shards:
            draft = _shards_draft(wholes, opened, fallback)
        else:
            notes += partial_notes(wholes)
            draft = _draft(wholes, opened, fallback)

        def stages(draft: Draft, path: Path) -> Iterator[Path]:
            return split_stages(opened, draft.artifacts.records, path)

        return write_all([draft], out, stages, notes)


def _draft(wholes: Sequence[Whole], opened: Sequence[OpenedWheel], fallback: str | None) -> Draft:
    """Return the wheel to be written; raises WheelRefused with all problems."""
    first = wholes[0].wheel
    problems = [reason for other in wholes[1:] for reason in _differences(other, wholes[0])]
    records, conflicts = unite([whole.records for whole in wholes])
    header, contradictions = joined_header(wholes, records, fallback)
    functions, unlike = join(wholes, records)
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
    builds = [Built(str(whole.path), whole.records, whole.read) for whole in wholes]
    problems += [*unlike, *contradictions, *conflicts, *unequal, *disagreements(builds)]
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
        place=first.place,
        artifacts=Artifacts(first.folder, header, functions, records, opened),
        changed={"METADATA": metadata.encode(), "WHEEL": with_tags(wheel, tag).encode()},
    )


def _shards_draft(
    wholes: Sequence[Whole], opened: Sequence[OpenedWheel], fallback: str | None
) -> Draft:
    """Return the wheel that shards make together; raises what `join_shards` does."""
    if fallback is not None:
        problem = "--fallback is for wheels of several manifests, and shards have one"
        raise WheelRefused(str(opened[0].path), problem, [], "Leave it out.")
    parts = [read_part(str(each.path), _InWheel(each), each.index) for each in opened]
    made = join_shards(parts)
    first = wholes[0].wheel
    if problems := [reason for other in wholes[1:] for reason in _differences(other, wholes[0])]:
        _refuse(wholes, problems)
    native = any(not record.target.is_portable for record in made.records)
    tag = f"py3-none-{parts[0].file.facts.platform if native else 'any'}"
    wheel = first.archive.read(f"{first.info}/WHEEL").decode("utf-8")
    artifacts = Artifacts(first.folder, made.header, made.functions, made.records, opened)
    changed = {} if tag == first.name.tag else {"WHEEL": with_tags(wheel, tag).encode()}
    return replace(Draft.like(first, artifacts, changed), name=replace(first.name, tag=tag))


class _InWheel:
    """The `_aot` folder of an opened wheel, whose files are checked."""

    def __init__(self, wheel: OpenedWheel) -> None:
        self.place, self._wheel = f"{wheel.path}/{wheel.folder}", wheel

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; OSError if it is not there."""
        member = f"{self._wheel.folder}{name}"
        if member not in self._wheel.names:
            raise FileNotFoundError(errno.ENOENT, "is not in the wheel", member)
        return self._wheel.archive.read(member)


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
    expected, found = (with_requirements(whole.metadata, []) for whole in (first, other))
    if expected != found:
        yield f"{place}: METADATA: {_first_difference(expected, found)}"
    here, there = (_code(whole.wheel) for whole in (first, other))
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
    wholes: Sequence[Whole], records: Sequence[Record], fallback: str | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the joined header, and the contradictions between the headers.

    What a build left out is present if one of `records`, all that there are now, is of it.
    `fallback` replaces that of the headers.
    """
    chosen = {} if fallback is None else {_FALLBACK: fallback}
    headers = [{**whole.header, **chosen} for whole in wholes]
    joined = left_out_header(join_left_out(map(read_left_out, headers), records))
    joined |= join_sources(headers)
    problems = []
    for key in sorted({key for header in headers for key in header} - {LEFT_OUT, SOURCES}):
        values = [header[key] for header in headers if key in header]
        if key in _VERSIONS:
            joined[key] = _join_versions(map(str, values))
        elif any(value != values[0] for value in values):
            shown = " and ".join(sorted({repr(value) for value in values}))
            what = "keep: where" if key == HEADER_KEY else key
            remedy = f"; choose with --{key}" if key == _FALLBACK else ""
            problems.append(f"the indexes differ in {what}: {shown}{remedy}")
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
