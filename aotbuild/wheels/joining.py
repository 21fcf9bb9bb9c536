"""Joining the headers, tags, requirements and records of several wheels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from packaging.version import InvalidVersion, Version

from aotbuild.build.requirements import exactly
from aotbuild.spec.canonical import canonical_json
from aotbuild.spec.layout import HEADER_KEY
from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_to_json
from aotbuild.spec.signature import Function
from aotbuild.wheels.metadata import is_added_by_build, name_of

_NO_VERSION = Version("0")


def function_problems(
    path: str, functions: Iterable[Function], first: Sequence[Function]
) -> list[str]:
    """Return the differences between the functions of a wheel and those of the first one."""
    expected, found = ({f.name: f for f in some} for some in (first, functions))
    lines = [f"{path}: function {name} is missing" for name in sorted(set(expected) - set(found))]
    lines += [
        f"{path}: function {name} is only here" for name in sorted(set(found) - set(expected))
    ]
    lines += [
        f"{path}: function {name} is called in another way"
        for name in sorted(set(found) & set(expected))
        if found[name] != expected[name]
    ]
    return lines


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
    if one.target.is_portable and _jax(one) != _jax(other):
        return min(one, other, key=_jax)
    same = (one.blob, one.requires, one.calling) == (other.blob, other.requires, other.calling)
    # They differ in measurements or notes at most; the choice must not depend on the order.
    return min(one, other, key=lambda r: canonical_json(record_to_json(r))) if same else None


def _jax(record: Record) -> Version:
    try:
        return Version(str(record.provenance.get("jax", "")))
    except InvalidVersion:
        return _NO_VERSION


_VERSIONS = ("aotbuild", "jax", "jaxlib")
_SEPARATOR = ", "


def joined_header(headers: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Return the joined header, and the contradictions between the headers."""
    joined: dict[str, Any] = {}
    problems = []
    for key in sorted({key for header in headers for key in header}):
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


def joined_tag(tags: Iterable[str]) -> str | None:
    """Return the compressed tag of several, such as `py3-none-a.b`; None if there is none."""
    sets = [[part.split(".") for part in tag.split("-")] for tag in tags]
    wanted = {single for parts in sets for single in product(*parts)}
    columns = [sorted(set(column)) for column in zip(*wanted, strict=True)]
    if wanted != set(product(*columns)):
        return None
    return "-".join(".".join(column) for column in columns)


def with_tags(text: str, tag: str) -> str:
    """Return a WHEEL file with the `Tag` lines of a compressed tag."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    kept = [line for line in lines if not line.startswith("Tag:")]
    tags = product(*(part.split(".") for part in tag.split("-")))
    return "\n".join([*kept, *(f"Tag: {'-'.join(single)}" for single in tags), ""])


def _join_versions(texts: Iterable[str]) -> str:
    versions = {version for text in texts for version in text.split(_SEPARATOR) if version}
    return _SEPARATOR.join(sorted(versions, key=_order))


def _order(version: str) -> tuple[Version, str]:
    try:
        return Version(version), version
    except InvalidVersion:
        return Version("0"), version


_PINNED = ("jax", "jaxlib")


def joined_requirements(
    wheels: Mapping[str, Sequence[str]], versions: Mapping[str, str], native: bool
) -> tuple[list[str], list[str]]:
    """Return the joined requirements, and the contradictions between them.

    The project's own lines must be equal. Lines added by builds are united. If the exact versions
    of jax or jaxlib differ, all of `versions` (as the index's header lists them) are allowed;
    without `native` executables, later ones are as well.
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
            # What a build with all these toolchains writes.
            known = versions[name].split(", ")
            allowed = exactly(known) if native else f">={min(known, key=Version)}"
            by_name[name] = [f"{name}{allowed}"]
    return [*own, *(line for lines in by_name.values() for line in lines)], problems
