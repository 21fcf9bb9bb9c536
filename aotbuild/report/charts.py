"""The charts of a package: which numbers they show, and what is left out when there are many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aotbuild.report.facts import (
    FunctionFacts,
    PackageFacts,
    column_of,
    columns,
    needed_blobs,
    short_label,
)
from aotbuild.report.markup import Markup, join, tag
from aotbuild.report.text import share
from aotbuild.report.words import bytes_text, count_text, flops, peak_memory, shown
from aotbuild.spec.record import Record
from aotbuild.spec.values import cut

# What one looks at without scrolling for long; the tables below have everything.
MOST_FUNCTIONS = 24
MOST_SIGNATURES = 150

Measure = Callable[[Sequence[Record]], float | None]


def charts(facts: PackageFacts) -> list[Markup]:
    """Return a card each for size, peak memory and FLOPs, by function and target."""
    most = "the largest of its signatures"
    return [
        _chart(facts, "Size", "what its calls read, equal blobs once", _size, bytes_text),
        _chart(facts, "Peak memory", f"{most}, per device", _most(peak_memory), bytes_text),
        _chart(facts, "FLOPs", f"{most}, one call, per device", _most(flops), count_text),
    ]


def coverage(facts: PackageFacts) -> Markup:
    """Return the matrix of signatures and targets; by function only where there are many."""
    names = columns(facts)
    by_signature = facts.signature_count <= MOST_SIGNATURES
    make = _signature_rows if by_signature else _function_rows
    rows = [row for function in facts.functions for row in make(function, names)]
    drawn = matrix(names, rows[:MOST_SIGNATURES], "Coverage of signatures by target")
    rest = len(rows) - MOST_SIGNATURES
    return join((drawn, tag("p", f"and {rest} functions more", class_="note") if rest > 0 else ""))


def _chart(
    facts: PackageFacts,
    title: str,
    note: str,
    measure: Measure,
    words: Callable[[float | None], str],
) -> Markup:
    names = columns(facts)
    groups = [_group(function, names, measure) for function in facts.functions]
    kept = _largest([group for group in groups if group.bars])
    if len(kept) < len(groups):
        note += f"; {len(kept)} of {len(groups)} functions"
    return tag(
        "div",
        tag("h3", title),
        tag("p", note, class_="note"),
        bars(kept, words, f"{title} by function and target"),
        class_="card",
    )


def _group(function: FunctionFacts, names: Sequence[str], measure: Measure) -> Group:
    bars = []
    for color, name in enumerate(names):
        records = [record for record in function.records if column_of(record.target) == name]
        value = measure(records)
        if value is not None:
            bars.append(Bar(f"{shown(function.name)}, {name}", value, color))
    return Group(shown(function.name), tuple(bars))


def _largest(groups: list[Group]) -> list[Group]:
    """Return the groups that a chart has room for: the largest ones, in the order they were."""
    ranked = sorted(groups, key=lambda g: -max(bar.value or 0 for bar in g.bars))
    kept = {id(group) for group in ranked[:MOST_FUNCTIONS]}
    return [group for group in groups if id(group) in kept]


def _size(records: Sequence[Record]) -> float | None:
    return sum(blob.size for blob in needed_blobs(records).values()) if records else None


def _most(estimate: Callable[[Record], float | None]) -> Measure:
    def most(records: Sequence[Record]) -> float | None:
        return max((v for v in map(estimate, records) if v is not None), default=None)

    return most


def _signature_rows(function: FunctionFacts, names: Sequence[str]) -> Iterable[Row]:
    for signature in function.signatures:
        cells = []
        for name in names:
            found = [r for r in signature.records if column_of(r.target) == name]
            note = ", ".join(str(record.target) for record in found) or f"no {name}"
            words = bytes_text(_size(found)) if found else ""
            cells.append(Cell(float(bool(found)), words, note))
        yield Row(shown(function.name), short_label(signature), tuple(cells))


def _function_rows(function: FunctionFacts, names: Sequence[str]) -> Iterable[Row]:
    parts = [share(function, name) for name in names]
    cells = tuple(Cell(n / of, f"{n}/{of}", f"{n} of {of}") for n, of in parts if of)
    if cells:
        label = f"{len(function.signatures)} signatures"
        yield Row(shown(function.name), label, cells)


_WIDTH, _BAR, _GAP, _HEAD = 340, 13, 4, 20
_VALUE = 68  # room for a number at the right of a bar
_CELL, _ROW, _COLUMN, _LETTER = 18, 26, 150, 7.4


@dataclass(frozen=True)
class Bar:
    """One bar: its value, None where it is not known, and the number of its colour."""

    label: str
    value: float | None
    color: int


@dataclass(frozen=True)
class Group:
    """The bars of one function."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Cell:
    """One field of a matrix: `share` from 0 to 1 of it is there; `note` is shown on hovering."""

    share: float
    words: str
    note: str


@dataclass(frozen=True)
class Row:
    """One row of a matrix: a name, shown where it changes, a label, and its cells."""

    name: str
    label: str
    cells: tuple[Cell, ...]


def color(number: int) -> str:
    """Return one of the eight colours of the style sheet."""
    return f"var(--c{number % 8})"


def bars(groups: Sequence[Group], words: Callable[[float | None], str], title: str) -> Markup:
    """Return a chart of horizontal bars from 0, all to one scale."""
    most = max((bar.value or 0 for group in groups for bar in group.bars), default=0) or 1
    parts, top = [], 0
    for group in groups:
        name = cut(group.name, 44)
        parts.append(tag("text", name, x=0, y=top + 13, class_="mono"))
        top += _HEAD
        for bar in group.bars:
            parts.append(_bar(bar, top, (bar.value or 0) / most, words(bar.value)))
            top += _BAR + _GAP
        top += 8
    return _svg(parts, _WIDTH, max(top, 1), title, None)


def matrix(columns: Sequence[str], rows: Sequence[Row], title: str) -> Markup:
    """Return a matrix: filled cells are there, dashed ones missing, fractions partly filled."""
    left = int(_LETTER * max((len(cut(row.name, 30)) for row in rows), default=0)) + 20
    label = int(_LETTER * max((len(cut(row.label, 60)) for row in rows), default=0)) + 20
    widths = [max(_COLUMN, int(len(cut(name, 30)) * _LETTER) + 18) for name in columns]
    starts = [left + label + sum(widths[:at]) for at in range(len(widths))]
    parts = [
        tag("text", cut(name, 30), x=at, y=14, class_="mono")
        for name, at in zip(columns, starts, strict=True)
    ]
    above = ""
    for number, row in enumerate(rows):
        top = 28 + number * _ROW
        if row.name != above:
            parts.append(_rule(top - 3, left + label + sum(widths)))
            parts.append(tag("text", cut(row.name, 30), x=0, y=top + 14, class_="mono"))
        above = row.name
        parts.append(tag("text", cut(row.label, 60), x=left, y=top + 14, class_="soft mono"))
        parts += [
            _cell(cell, at, top, column)
            for column, (cell, at) in enumerate(zip(row.cells, starts, strict=True))
        ]
    width, height = left + label + sum(widths), 28 + len(rows) * _ROW
    return _svg(parts, width, height, title, "matrix")


def _bar(bar: Bar, top: int, share: float, number: str) -> Markup:
    room = _WIDTH - _VALUE
    width = max(2.0, room * share) if bar.value else 0
    return tag(
        "g",
        tag("title", f"{bar.label}: {number}"),
        tag("rect", x=0, y=top, width=room, height=_BAR, rx=3, class_="track"),
        tag("rect", x=0, y=top, width=f"{width:.1f}", height=_BAR, rx=3, fill=color(bar.color)),
        tag("text", number, x=_WIDTH, y=top + 11, text_anchor="end", class_="soft"),
    )


def _cell(cell: Cell, left: int, top: int, column: int) -> Markup:
    box = {"x": left, "width": _CELL, "height": _CELL, "y": top, "rx": 4}
    parts = [tag("title", cell.note)]
    if cell.share < 1:
        parts.append(tag("rect", **box, class_="hole"))
    if cell.share > 0:
        width = f"{_CELL * cell.share:.1f}"
        parts.append(tag("rect", **{**box, "width": width}, fill=color(column)))
    if cell.words:
        parts.append(tag("text", cell.words, x=left + _CELL + 6, y=top + 14, class_="soft"))
    return tag("g", *parts)


def _rule(top: int, width: int) -> Markup:
    return tag("line", x1=0, x2=width, y1=top, y2=top, class_="rule")


def _svg(
    parts: Sequence[Markup], width: int, height: int, title: str, class_: str | None
) -> Markup:
    size = {"width": width, "height": height} if class_ else {}
    box = f"0 0 {width} {height}"
    return tag(
        "svg", tag("title", title), join(parts), viewBox=box, role="img", class_=class_, **size
    )
