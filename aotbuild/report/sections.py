"""The tables of the HTML page: executables of a function, hoisted constants, settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotbuild.report.charts import color
from aotbuild.report.document import call_text, pad_text, requirement_words
from aotbuild.report.facts import (
    FunctionFacts,
    PackageFacts,
    SignatureFacts,
    column_of,
    constants,
    short_label,
)
from aotbuild.report.markup import Markup, escape, join, tag
from aotbuild.report.text import MEASURED_HEADERS, avals_text, measured_rows, setting_rows
from aotbuild.report.words import (
    bytes_accessed,
    bytes_text,
    count_text,
    flops,
    peak_memory,
    peak_text,
    plural,
)
from aotbuild.spec.record import Record

_NUMBERS = ("size", "FLOPs", "bytes moved", "peak memory")
# Avals of this many signatures are written out; a page of megabytes shows nobody anything.
_MOST_AVALS = 500


def function_card(facts: FunctionFacts, names: Sequence[str], is_open: bool) -> Markup:
    """Return a card with every executable of a function, and the avals of its signatures."""
    donate, pad = facts.function.donate, pad_text(facts.function)
    title = join(
        (
            tag("h3", facts.name, class_="mono"),
            tag("p", call_text(facts.function), class_="soft mono"),
            tag("p", f"donates {', '.join(donate)}", class_="note") if donate else "",
            tag("p", f"pads {pad}", class_="note") if pad else "",
        )
    )
    table = _executables(facts, names)
    if not is_open:
        words = plural(len(facts.records), "executable")
        table = tag("details", tag("summary", words), table)
    return tag("div", title, table, _avals(facts), class_="card")


def constants_card(facts: PackageFacts) -> Markup | None:
    """Return a card with the hoisted constants; None where there are none."""
    rows = [
        tag(
            "tr",
            tag("td", str(constant.aval), class_="name"),
            _number(constant.blob.size, bytes_text(constant.blob.size)),
            _number(users, str(users)),
            tag("td", constant.blob.sha256[:16], class_="name"),
        )
        for constant, users in constants(facts)
    ]
    heads = (_head("aval"), _head("size", True), _head("used by", True), _head("SHA-256"))
    return tag("div", _table(heads, rows), class_="card") if rows else None


def measured_card(facts: PackageFacts) -> Markup | None:
    """Return a card with what `startup: tuned` measured; None where it measured nothing."""
    rows = [
        tag("tr", *(tag("td", cell, class_="mono") for cell in row)) for row in measured_rows(facts)
    ]
    heads = tuple(tag("th", word) for word in MEASURED_HEADERS)
    return tag("div", _table(heads, rows), class_="card") if rows else None


def settings_card(facts: PackageFacts) -> Markup:
    """Return a card with the settings that the executables were made with."""
    rows = [
        tag("tr", tag("td", name, class_="name"), tag("td", value, class_="mono"))
        for name, value in setting_rows(facts)
    ]
    heads = (tag("th", "setting"), tag("th", "value"))
    return tag("div", _table(heads, rows), class_="card")


def _executables(facts: FunctionFacts, names: Sequence[str]) -> Markup:
    heads = [_head("signature"), _head("target"), _head("kind")]
    heads += [_head(name, True) for name in _NUMBERS]
    rows = [
        tag("tr", _signature(signature), *_cells(record, names))
        for signature in facts.signatures
        for record in signature.records
    ]
    return _table((*heads, tag("th", "needs")), rows, "executables")


def _signature(signature: SignatureFacts) -> Markup:
    return tag("td", short_label(signature), class_="name", title=signature.label)


def _cells(record: Record, names: Sequence[str]) -> list[Markup]:
    dot = tag(
        "span", class_="dot", style=f"background:{color(names.index(column_of(record.target)))}"
    )
    needs = (tag("span", word, class_="need") for word in requirement_words(record.requires))
    return [
        tag("td", dot, str(record.target), class_="name"),
        tag("td", record.blob.kind),
        _number(record.blob.size, bytes_text(record.blob.size)),
        _number(flops(record), count_text(flops(record))),
        _number(bytes_accessed(record), bytes_text(bytes_accessed(record))),
        _number(peak_memory(record), peak_text(record)),
        tag("td", join(needs) or "–"),
    ]


def _avals(facts: FunctionFacts) -> Markup:
    shown_ones = facts.signatures[:_MOST_AVALS]
    items = [
        join((tag("dt", short_label(s)), tag("dd", avals_text(s, full=False), class_="mono")))
        for s in shown_ones
    ]
    rest = len(facts.signatures) - len(shown_ones)
    more = tag("p", f"and {rest} more", class_="note") if rest else escape("")
    return tag("details", tag("summary", "arrays in and out"), tag("dl", *items), more)


def _table(heads: Sequence[Markup], rows: Sequence[Markup], kind: str | None = None) -> Markup:
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_=kind)


def _head(words: str, number: bool = False) -> Markup:
    return tag("th", words, class_="sortable number" if number else "sortable")


def _number(value: Any, words: str) -> Markup:
    """Return a cell that sorts by its value; what is not known comes first."""
    sorts_by = -1 if value is None else value
    return tag("td", "–" if value is None else words, class_="number", data_value=sorts_by)
