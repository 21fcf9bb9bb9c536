"""What `startup: tuned` measured of each executable, as the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aotbuild.report.facts import PackageFacts
from aotbuild.report.words import number, shown
from aotbuild.spec.record import Record

MEASURED_HEADERS = ("executable", "target", "set", "load ms", "first call ms", "later ms", "")
_FIGURES = ("load_ms", "first_ms", "steady_ms")


def measured_rows(facts: PackageFacts) -> list[tuple[str, ...]]:
    """Return a row for each set of options that was measured for an executable."""
    return [
        (shown(signature.label), shown(str(record.target)), *row)
        for function in facts.functions
        for signature in function.signatures
        for record in signature.records
        for row in _rows(record)
    ]


def _rows(record: Record) -> Iterator[tuple[str, ...]]:
    startup = record.provenance.get("startup")
    if not isinstance(startup, dict) or not isinstance(startup.get("measured"), list):
        return
    for item in startup["measured"]:
        if isinstance(item, dict):
            yield _row(item, kept=item.get("set") == startup.get("set"))


def _row(item: dict[str, Any], *, kept: bool) -> tuple[str, ...]:
    figures = (number(item.get(name)) for name in _FIGURES)
    words = ("-" if figure is None else f"{figure:.3g}" for figure in figures)
    mark = "kept" if kept else "dropped" if item.get("dropped") is True else ""
    return (shown(item.get("set")), *words, mark)
