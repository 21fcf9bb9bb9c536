"""A diff as a JSON document, and as lines and tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotbuild.report.diff import NUMBERS, Change, Diff, Part, Unit
from aotbuild.report.document import place_document
from aotbuild.report.facts import PackageFacts
from aotbuild.report.words import bytes_text, change_text, count_text, plural, shown

COST_HEADERS = ("executable", "what", "old", "new", "change")
_WORDS = {"bytes_accessed": "bytes moved", "peak_memory": "peak memory"}


def diff_document(found: Diff, old: PackageFacts, new: PackageFacts) -> dict[str, Any]:
    """Return a diff as data."""
    return {
        "old": place_document(old),
        "new": place_document(new),
        "different": not found.is_empty,
        "package": _fields(found.package),
        "functions": _part(found.functions),
        "signatures": _part(found.signatures),
        "targets": _part(found.targets),
        "executables": _part(found.executables),
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "gained": list(map(_names, part.gained)),
        "lost": list(map(_names, part.lost)),
        "changed": [{**_names(unit), "fields": _fields(fields)} for unit, fields in part.changed],
    }


def _names(unit: Unit) -> dict[str, str]:
    return {name: value for name, value in vars(unit).items() if value}


def _fields(fields: tuple[Change, ...]) -> dict[str, Any]:
    return {field.name: {"old": field.old, "new": field.new} for field in fields}


def diff_lines(found: Diff) -> Iterator[str]:
    """Yield all lines except costs: `+` is added, `-` removed, `~` changed."""
    for field in found.package:
        yield f"~ {_field_text(field)}"
    parts = {
        "function": found.functions,
        "target": found.targets,
        "signature": found.signatures,
        "executable": found.executables,
    }
    for noun, part in parts.items():
        yield from (f"+ {noun} {shown(str(unit))}" for unit in part.gained)
        yield from (f"- {noun} {shown(str(unit))}" for unit in part.lost)
    for unit, fields in found.functions.changed:
        for field in fields:
            yield f"~ function {shown(str(unit))}: {_field_text(field)}"
    for unit, fields in found.signatures.changed:
        yield f"~ signature {shown(str(unit))}"
        for field in fields:
            yield from _aval_lines(field)
    yield from _shared_lines(found.executables)


def cost_rows(found: Diff) -> list[tuple[str, ...]]:
    """Return a row for each number of an executable that changed; see `COST_HEADERS`."""
    return [
        (
            shown(str(unit)),
            _WORDS.get(field.name, field.name),
            _number(field.name, field.old),
            _number(field.name, field.new),
            change_text(field.old, field.new) or "-",
        )
        for unit, fields in found.executables.changed
        for field in fields
        if field.name in NUMBERS
    ]


def _aval_lines(field: Change) -> Iterator[str]:
    """Yield the avals that differ, or all of them if their number changed."""
    if len(field.old) != len(field.new):
        yield f"    {_field_text(field)}"
        return
    for at, (old, new) in enumerate(zip(field.old, field.new, strict=True)):
        if old != new:
            yield f"    {field.name}[{at}]: {shown(old)} → {shown(new)}"


def _shared_lines(executables: Part) -> Iterator[str]:
    """Yield changed requirements and settings; executables with the same change share a line."""
    users: dict[str, list[Unit]] = {}
    for unit, fields in executables.changed:
        for field in fields:
            if field.name not in NUMBERS:
                text = "other bytes" if field.name == "sha256" else _field_text(field)
                users.setdefault(text, []).append(unit)
    for text, units in users.items():
        who = shown(str(units[0])) if len(units) == 1 else plural(len(units), "executable")
        yield f"~ {who}: {text}"


def _field_text(field: Change) -> str:
    if field.name == "size":
        grown = change_text(field.old, field.new)
        return f"size {bytes_text(field.old)} → {bytes_text(field.new)} ({grown})"
    return f"{shown(field.name)} {_value(field.old)} → {_value(field.new)}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return shown(", ".join(value)) or "none"
    return shown(value) or "(empty)"


def _number(name: str, value: float | None) -> str:
    return count_text(value) if name == "flops" else bytes_text(value)
