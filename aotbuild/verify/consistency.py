"""Contradictions between a record and other records, its blob, or its package.

Contradictions within one record are refused when it is read (`spec.record_check`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from aotbuild.spec.parts import COMPANIONS, companions_of
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function

_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6}){0,3}", re.ASCII)
_CAPABILITY = re.compile(r"[0-9]{1,3}\.[0-9][af]?", re.ASCII)


def record_problems(
    header: dict[str, object], functions: Sequence[Function], records: Sequence[Record]
) -> Iterator[str]:
    """Yield every contradiction, with the name of its record."""
    seen: dict[tuple[str, str, str, str | None], Record] = {}
    stated = header.get("jaxlib")
    jaxlibs = None if stated is None else str(stated).split(", ")
    for record in records:
        for check in _CHECKS:
            reason = check(record)
            if reason:
                yield f"{record}: {reason}"
        jaxlib = record.requires.jaxlib
        if jaxlibs is not None and not record.target.is_portable and jaxlib not in jaxlibs:
            yield f"{record}: needs jaxlib {jaxlib}, the index says {stated}"
        key = (record.function, record.signature.key(), str(record.target), jaxlib)
        if key in seen:
            yield f"{record}: has the same signature and target as {seen[key]}"
        seen[key] = record
    yield from _header_problems(header)
    called = {record.function for record in records}
    # The records of a base may all be in its companions.
    uncalled = () if COMPANIONS in header else {function.name for function in functions} - called
    for name in sorted(uncalled):
        yield f"{name}: no record is of this function"


def _header_problems(header: dict[str, object]) -> Iterator[str]:
    try:
        companions_of(header)
    except ValueError as err:
        yield str(err)


def _check_kind(record: Record) -> str | None:
    expected = "stablehlo" if record.target.is_portable else "pjrt"
    found = record.blob.kind
    return None if found == expected else f"its blob is {found}, expected {expected}"


def _check_target(record: Record) -> str | None:
    target, requires = record.target, record.requires
    pairs = [
        ("platforms", target.platforms, requires.platforms),
        ("devices", target.devices, requires.devices),
        ("processes", target.processes, requires.processes),
        ("isa", target.detail if target.platform == "cpu" else None, requires.isa),
    ]
    wrong = [f"{what} {found}" for what, expected, found in pairs if found != expected]
    return f"is for {target}, but requires {', '.join(wrong)}" if wrong else None


def _check_versions(record: Record) -> str | None:
    requires = record.requires
    pairs = [
        ("capability", _CAPABILITY, requires.capability),
        ("cuda", _VERSION, requires.cuda),
        ("cudnn", _VERSION, requires.cudnn),
    ]
    wrong = (
        f"requires {what} {found!r}, which is none"
        for what, form, found in pairs
        if found is not None and not form.fullmatch(found)
    )
    return next(wrong, None)


_CHECKS: tuple[Callable[[Record], str | None], ...] = (_check_kind, _check_target, _check_versions)
