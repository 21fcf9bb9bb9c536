"""A diff as a JSON document, and as lines and tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from aotbuild.report.diff import NUMBERS, Changed, Diff, Field, Sides, Unit
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
        "functions": _part(found.functions, found.functions_changed, ("function",)),
        "signatures": _part(found.signatures, found.signatures_changed, ("function", "signature")),
        "targets": asdict(found.targets),
        "executables": _part(
            found.executables, found.executables_changed, ("function", "signature", "target")
        ),
    }


def diff_lines(found: Diff) -> Iterator[str]:
    """Yield all lines except costs: `+` is added, `-` removed, `~` changed."""
    for field in found.package:
        yield f"~ {_field_text(field)}"
    yield from _side_lines("function", found.functions)
    yield from _side_lines("target", found.targets)
    yield from _side_lines("signature", found.signatures)
    yield from _side_lines("executable", found.executables)
    for change in found.functions_changed:
        for field in change.fields:
            yield f"~ function {shown(change.what.function)}: {_field_text(field)}"
    for change in found.signatures_changed:
        yield f"~ signature {change.what.signature}"
        for field in change.fields:
            yield from _aval_lines(field)
    yield from _shared_lines(found.executables_changed)


def cost_rows(found: Diff) -> list[tuple[str, ...]]:
    """Return a row for each number of an executable that changed; see `COST_HEADERS`."""
    return [
        (
            _name(change.what),
            _WORDS.get(field.name, field.name),
            _number(field.name, field.old),
            _number(field.name, field.new),
            change_text(field.old, field.new) or "-",
        )
        for change in found.executables_changed
        for field in change.fields
        if field.name in NUMBERS
    ]


def _part(sides: Sides, changed: tuple[Changed, ...], names: tuple[str, ...]) -> dict[str, Any]:
    def named(what: Any) -> Any:
        return what if isinstance(what, str) else {name: getattr(what, name) for name in names}

    return {
        "gained": [named(what) for what in sides.gained],
        "lost": [named(what) for what in sides.lost],
        "changed": [{**named(c.what), "fields": _fields(c.fields)} for c in changed],
    }


def _fields(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {field.name: {"old": field.old, "new": field.new} for field in fields}


def _side_lines(noun: str, sides: Sides) -> Iterator[str]:
    for sign, names in (("+", sides.gained), ("-", sides.lost)):
        yield from (f"{sign} {noun} {_name(name)}" for name in names)


def _aval_lines(field: Field) -> Iterator[str]:
    """Yield the avals that differ, or all of them if their number changed."""
    if len(field.old) != len(field.new):
        yield f"    {_field_text(field)}"
        return
    for at, (old, new) in enumerate(zip(field.old, field.new, strict=True)):
        if old != new:
            yield f"    {field.name}[{at}]: {shown(old)} → {shown(new)}"


def _shared_lines(changed: tuple[Changed, ...]) -> Iterator[str]:
    """Yield changed requirements and settings; executables with the same change share a line."""
    users: dict[str, list[Unit]] = {}
    for change in changed:
        for field in change.fields:
            if field.name == "sha256":
                users.setdefault("other bytes", []).append(change.what)
            elif field.name not in NUMBERS:
                users.setdefault(_field_text(field), []).append(change.what)
    for text, units in users.items():
        who = _name(units[0]) if len(units) == 1 else plural(len(units), "executable")
        yield f"~ {who}: {text}"


def _field_text(field: Field) -> str:
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


def _name(what: Unit | str) -> str:
    if isinstance(what, str):
        return shown(what)
    return shown(f"{what.signature} for {what.target}" if what.target else what.signature)
