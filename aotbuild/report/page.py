"""One self-contained HTML page about a package: it sends no request and runs no foreign code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aotbuild.format.layout import HEADER_KEY, STAGES
from aotbuild.format.record import Blob
from aotbuild.report.charts import color, cost_charts, coverage_chart
from aotbuild.report.document import call_text, needs, pad_text
from aotbuild.report.facts import (
    FunctionFacts,
    PackageFacts,
    column_of,
    columns,
    constants,
    short_label,
    stored_twice,
    total_size,
)
from aotbuild.report.html import render
from aotbuild.report.text import (
    LEFT_OUT_HEADERS,
    MEASURED_HEADERS,
    avals_text,
    covers,
    left_out_rows,
    measured_rows,
    setting_rows,
    stages_text,
)
from aotbuild.report.words import (
    bytes_accessed,
    bytes_text,
    count_text,
    flops,
    peak_memory,
    peak_text,
    plural,
    shown,
)

# With more functions than this, the tables of executables are folded.
_OPEN_FUNCTIONS = 12
# Limits on what is written out: nobody reads a page of megabytes.
_MOST_AVALS = 500
_MOST_OWNERS = 4

_HELPERS = (
    *(color, column_of, short_label, call_text, pad_text, needs, avals_text, plural),
    *(bytes_text, count_text, flops, bytes_accessed, peak_memory, peak_text),
)


@dataclass(frozen=True)
class StageText:
    """A kept stage of a function: its text, and the signatures and targets that share it."""

    stage: str
    size: int
    owners: list[str]
    text: str


def page_html(facts: PackageFacts, texts: Mapping[Blob, str] | None = None) -> str:
    """Return the page as text, to be written as UTF-8; `texts` are kept stages to show on it."""
    names = columns(facts)
    stages = [
        (function.name, found)
        for function in facts.functions
        if (found := list(_stage_texts(function, texts or {})))
    ]
    return render(
        __package__,
        "page.html",
        *_HELPERS,
        facts=facts,
        columns=names,
        badges=list(_badges(facts)),
        tiles=list(_tiles(facts, names)),
        charts=cost_charts(facts),
        coverage=coverage_chart(facts),
        functions_are_open=len(facts.functions) <= _OPEN_FUNCTIONS,
        most_avals=_MOST_AVALS,
        stages=stages,
        most_owners=_MOST_OWNERS,
        constants=list(constants(facts)),
        left_out=left_out_rows(facts),
        left_out_headers=LEFT_OUT_HEADERS,
        measured=measured_rows(facts),
        measured_headers=MEASURED_HEADERS,
        settings=setting_rows(facts),
        source=f"Read from the index {'and the kept stages' if texts else 'alone'}",
    )


def _badges(facts: PackageFacts) -> Iterator[tuple[str, str]]:
    for name in ("aotbuild", "jax", "jaxlib", "fallback"):
        if name in facts.header:
            yield name, shown(facts.header[name])
    if HEADER_KEY in facts.header:
        yield "stages", stages_text(facts)


def _tiles(facts: PackageFacts, names: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (title, value, note) of each figure at the top of the page."""
    saved = stored_twice(facts)
    peaks = [peak for record in facts.records if (peak := peak_memory(record)) is not None]
    signatures = [signature for function in facts.functions for signature in function.signatures]
    natives = sum(any(not r.target.is_portable for r in s.records) for s in signatures)
    full = sum(all(covers(s, name) for name in names) for s in signatures)
    shared = f"{bytes_text(saved)} shared" if saved else "index and blobs"
    yield "on disk", bytes_text(total_size(facts)), shared
    yield "executables", str(len(facts.records)), f"for {plural(len(names), 'platform')}"
    yield "functions", str(len(facts.functions)), plural(len(signatures), "signature")
    yield "native", _fraction(natives, len(signatures)), "signatures that need no compiling"
    yield "covered", _fraction(full, len(signatures)), "signatures made for every target"
    yield "peak memory", bytes_text(max(peaks, default=None)), "of the largest executable"


def _fraction(part: int, whole: int) -> str:
    """Return `7/8`, or a rounded down percentage where that would be long."""
    return f"{part}/{whole}" if whole < 1000 else f"{part * 100 // whole}%"


def _stage_texts(function: FunctionFacts, texts: Mapping[Blob, str]) -> Iterator[StageText]:
    """Yield each different text of a function once, in the order of the stages."""
    owners: dict[tuple[str, Blob], list[str]] = {}
    for signature in function.signatures:
        for record in signature.records:
            for stage, blob in record.stages:
                owner = shown(f"{short_label(signature)} {record.target}")
                owners.setdefault((stage, blob), []).append(owner)
    for wanted in STAGES:
        for (stage, blob), names in owners.items():
            if stage == wanted and blob in texts:
                yield StageText(stage, blob.size, names, texts[blob])
