"""The charts of a package: which numbers they show, and what is left out when there are many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from aotbuild.report import svg
from aotbuild.report.costs import flops, peak_memory
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
from aotbuild.report.words import bytes_text, count_text, shown
from aotbuild.spec.record import Record

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
    drawn = svg.matrix(names, rows[:MOST_SIGNATURES], "Coverage of signatures by target")
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
        svg.bars(kept, words, f"{title} by function and target"),
        class_="card",
    )


def _group(function: FunctionFacts, names: Sequence[str], measure: Measure) -> svg.Group:
    bars = []
    for color, name in enumerate(names):
        records = [record for record in function.records if column_of(record.target) == name]
        value = measure(records)
        if value is not None:
            bars.append(svg.Bar(f"{shown(function.name)}, {name}", value, color))
    return svg.Group(shown(function.name), tuple(bars))


def _largest(groups: list[svg.Group]) -> list[svg.Group]:
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


def _signature_rows(function: FunctionFacts, names: Sequence[str]) -> Iterable[svg.Row]:
    for signature in function.signatures:
        cells = []
        for name in names:
            found = [r for r in signature.records if column_of(r.target) == name]
            note = ", ".join(str(record.target) for record in found) or f"no {name}"
            words = bytes_text(_size(found)) if found else ""
            cells.append(svg.Cell(float(bool(found)), words, note))
        yield svg.Row(shown(function.name), short_label(signature), tuple(cells))


def _function_rows(function: FunctionFacts, names: Sequence[str]) -> Iterable[svg.Row]:
    parts = [share(function, name) for name in names]
    cells = tuple(svg.Cell(n / of, f"{n}/{of}", f"{n} of {of}") for n, of in parts if of)
    if cells:
        label = f"{len(function.signatures)} signatures"
        yield svg.Row(shown(function.name), label, cells)
