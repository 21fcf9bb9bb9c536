"""The charts of a page: which numbers they show, and where each bar and cell is drawn.

Lengths are in CSS pixels. The template draws what is laid out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aotbuild.format.record import Record
from aotbuild.report.facts import (
    FunctionFacts,
    PackageFacts,
    column_of,
    columns,
    needed_blobs,
    short_label,
)
from aotbuild.report.text import share
from aotbuild.report.words import apart, bytes_text, count_text, flops, peak_memory, shown

# What fits a screen or two; the tables below have everything.
MOST_FUNCTIONS = 24
MOST_SIGNATURES = 150

_WIDTH = 340  # of a chart of bars
_NUMBER = 68  # room for the number to the right of a bar
_THICKNESS, _GAP, _HEAD, _SPACE = 13, 4, 20, 8
_BOX, _ROW, _COLUMN, _LETTER = 18, 26, 150, 7.4

Measure = Callable[[Sequence[Record]], float | None]
Words = Callable[[float | None], str]


@dataclass(frozen=True)
class Bar:
    """One bar: its value in words, its width, and the number of its color."""

    label: str
    words: str
    width: str
    color: int
    top: int


@dataclass(frozen=True)
class Group:
    """The bars of one function."""

    name: str
    bars: tuple[Bar, ...]
    top: int


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars from 0, all to one scale; `room` is the width of the longest."""

    title: str
    note: str
    groups: tuple[Group, ...]
    height: int
    width: int = _WIDTH
    room: int = _WIDTH - _NUMBER
    thickness: int = _THICKNESS


@dataclass(frozen=True)
class Cell:
    """One field of a matrix: `share` from 0 to 1 of it is covered; `note` shows on hovering."""

    share: float
    words: str
    note: str


@dataclass(frozen=True)
class Row:
    """One row of a matrix; `is_first` of those with its name."""

    name: str
    label: str
    cells: tuple[Cell, ...]
    is_first: bool = False
    top: int = 0


@dataclass(frozen=True)
class Column:
    """A column of a matrix, and where it begins."""

    name: str
    left: int


@dataclass(frozen=True)
class Matrix:
    """A matrix: covered cells are filled, missing ones dashed; `rest` rows did not fit."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    label_left: int
    width: int
    height: int
    rest: int
    box: int = _BOX


def cost_charts(facts: PackageFacts) -> list[BarChart]:
    """Return a chart each of size, peak memory and FLOPs, by function and target."""
    most = "the largest of its signatures"
    return [
        _chart(facts, "Size", "what its calls read, equal blobs once", _size, bytes_text),
        _chart(facts, "Peak memory", f"{most}, per device", _most(peak_memory), bytes_text),
        _chart(facts, "FLOPs", f"{most}, one call, per device", _most(flops), count_text),
    ]


def coverage_chart(facts: PackageFacts) -> Matrix:
    """Return the matrix of signatures and targets; by function only where there are many."""
    names = columns(facts)
    by_signature = facts.signature_count <= MOST_SIGNATURES
    make = _signature_rows if by_signature else _function_rows
    rows = [row for function in facts.functions for row in make(function, names)]
    rest = max(0, len(rows) - MOST_SIGNATURES)
    return _matrix(names, rows[:MOST_SIGNATURES], rest)


def color(number: int) -> str:
    """Return one of the eight colors of the style sheet."""
    return f"var(--c{number % 8})"


def _chart(facts: PackageFacts, title: str, note: str, measure: Measure, words: Words) -> BarChart:
    names = columns(facts)
    values = [
        (shown(function.name), found)
        for function in facts.functions
        if (found := _values(function, names, measure))
    ]
    # The largest ones, in the order of the package.
    ranked = sorted(values, key=lambda item: -max(item[1].values()))
    kept = {id(item) for item in ranked[:MOST_FUNCTIONS]}
    values = [item for item in values if id(item) in kept]
    if len(values) < len(facts.functions):
        note += f"; {len(values)} of {len(facts.functions)} functions"
    longest = max((value for _, found in values for value in found.values()), default=0) or 1
    short = _short([name for name, _ in values], 44)
    groups, top = [], 0
    for name, found in values:
        bars = tuple(
            Bar(
                label=f"{name}, {names[column]}",
                words=words(value),
                width=f"{max(2.0, (_WIDTH - _NUMBER) * value / longest) if value else 0:.1f}",
                color=column,
                top=top + _HEAD + number * (_THICKNESS + _GAP),
            )
            for number, (column, value) in enumerate(found.items())
        )
        groups.append(Group(short[name], bars, top))
        top += _HEAD + len(bars) * (_THICKNESS + _GAP) + _SPACE
    return BarChart(title, note, tuple(groups), height=max(top, 1))


def _values(function: FunctionFacts, names: Sequence[str], measure: Measure) -> dict[int, float]:
    """Return the known values of a function, by the number of the target's column."""
    found: dict[int, float] = {}
    for number, name in enumerate(names):
        value = measure([r for r in function.records if column_of(r.target) == name])
        if value is not None:
            found[number] = value
    return found


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
        yield Row(shown(function.name), f"{len(function.signatures)} signatures", cells)


def _matrix(names: Sequence[str], rows: Sequence[Row], rest: int) -> Matrix:
    """Lay out a matrix: function names at the left, then labels, then a column for each name."""
    functions, labels = _short([r.name for r in rows], 30), _short([r.label for r in rows], 60)
    label_left = _text_width(max(map(len, functions.values()), default=0)) + 20
    left = label_left + _text_width(max(map(len, labels.values()), default=0)) + 20
    headings = []
    for name in _short(names, 30).values():
        headings.append(Column(name, left))
        left += max(_COLUMN, _text_width(len(name)) + 18)
    placed, above = [], ""
    for number, row in enumerate(rows):
        top = 28 + number * _ROW
        is_first, above = row.name != above, row.name
        placed.append(Row(functions[row.name], labels[row.label], row.cells, is_first, top))
    height = 28 + len(rows) * _ROW
    return Matrix(tuple(headings), tuple(placed), label_left, left, height, rest)


def _short(texts: Sequence[str], longest: int) -> dict[str, str]:
    """Return what is drawn for each text."""
    return dict(zip(texts, apart(texts, longest), strict=True))


def _text_width(letters: int) -> int:
    return int(letters * _LETTER)
