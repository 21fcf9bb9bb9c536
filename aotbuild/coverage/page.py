"""A comparison as one self-contained HTML page, in the manner of coverage.py's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotbuild.coverage.result import Called, Coverage, Measure, State
from aotbuild.record.counted import counted
from aotbuild.report.html import render
from aotbuild.report.words import bytes_text

# With more functions than this, their signatures are folded.
_OPEN_FUNCTIONS = 12
# Signatures of one function that are written out.
_MOST_SIGNATURES = 500


@dataclass(frozen=True)
class FunctionPart:
    """A function on the page: its figures, and its signatures."""

    function: str
    place: str
    calls: int
    seconds: float
    percent: str
    parts: tuple[tuple[State, float], ...]
    called: Sequence[Called]


def coverage_page(coverage: Coverage) -> str:
    """Return the page as text, to be written as UTF-8."""
    return render(
        __package__,
        "page.html",
        bytes_text,
        counted,
        coverage=coverage,
        tiles=[*_tiles(coverage)],
        functions=[_part(coverage, *item) for item in coverage.functions.items()],
        functions_are_open=len(coverage.functions) <= _OPEN_FUNCTIONS,
        most=_MOST_SIGNATURES,
        states=[str(state) for state in State],
    )


def _tiles(coverage: Coverage) -> Iterator[tuple[str, str, str]]:
    """Yield (title, value, note) of each figure at the top of the page."""
    calls, seconds, signatures = (
        coverage.share(measure) for measure in (Measure.CALLS, Measure.SECONDS, Measure.SIGNATURES)
    )
    yield "calls", str(calls), f"of {counted(int(calls.total), 'call')} run what is compiled"
    yield "compilation", str(seconds), f"of {seconds.total:,.1f} s to compile are saved"
    done = f"{int(signatures.covered):,}/{int(signatures.total):,}"
    yield "signatures", done, "that were called are compiled"
    yield "padding", f"{coverage.waste:.0%}", "of the arrays of padded calls is padding"
    size = bytes_text(sum(each.size for each in coverage.unused)) if coverage.unused else "none"
    yield "never called", f"{len(coverage.unused):,}", f"compiled signatures, {size}"


def _part(coverage: Coverage, function: str, called: Sequence[Called]) -> FunctionPart:
    calls = sum(each.tally.calls for each in called)
    return FunctionPart(
        function,
        next((each.place for each in called if each.place), ""),
        calls,
        sum(each.tally.seconds for each in called),
        str(coverage.share(Measure.CALLS, called)),
        tuple(
            (state, 100.0 * sum(e.tally.calls for e in called if e.state is state) / calls)
            for state in State
            if calls
        ),
        called,
    )
