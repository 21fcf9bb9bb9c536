"""The records of several wheels as those of one: equal ones once, contradicting ones refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.version import InvalidVersion, Version

from aotbuild.spec.canonical import canonical_json
from aotbuild.spec.function import Function
from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_to_json

_NO_VERSION = Version("0")


def function_problems(
    path: str, functions: Iterable[Function], first: Sequence[Function]
) -> list[str]:
    """Return how the functions of a wheel differ from those of the first one."""
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
    """Return the records of all groups, and what contradicts each other among them.

    The same executable is there once. Of one portable artifact the one stays that the oldest jax
    made: a newer one reads it, as after a build with several toolchains.
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
    """Return which of two records of one key stays; None if they contradict each other."""
    if one.target.is_portable and _jax(one) != _jax(other):
        return min(one, other, key=_jax)
    same = (one.blob, one.requires, one.calling) == (other.blob, other.requires, other.calling)
    # They differ in what was measured or noted at most; the choice must not hang on the order.
    return min(one, other, key=lambda r: canonical_json(record_to_json(r))) if same else None


def _jax(record: Record) -> Version:
    try:
        return Version(str(record.provenance.get("jax", "")))
    except InvalidVersion:
        return _NO_VERSION
