"""A comparison as lines and tables for a terminal; the command prints them."""

from __future__ import annotations

from collections.abc import Iterator

from aotbuild.coverage.result import Called, Coverage, Measure, State
from aotbuild.record.counted import counted
from aotbuild.report.words import bytes_text, printable

HEADERS = ("function", "calls", "covered", "exact", "padded", "portable", "missing")
# Signatures that are listed; the JSON document has all of them.
_MOST_LISTED = 40


def function_rows(coverage: Coverage) -> list[tuple[str, ...]]:
    """Return a row for each function, with the calls of each state."""
    return [
        (
            printable(function),
            f"{sum(each.tally.calls for each in called):,}",
            str(coverage.share(Measure.CALLS, called)),
            *(_calls(called, state) for state in State),
        )
        for function, called in coverage.functions.items()
    ]


def list_lines(coverage: Coverage) -> Iterator[str]:
    """Yield what is not covered, and what is compiled for nothing."""
    missing = coverage.of(State.PORTABLE, State.MISSING)
    yield from _missing_lines(missing)
    if coverage.unused:
        yield ""
        yield "compiled, but never called"
        for each in coverage.unused[:_MOST_LISTED]:
            targets = f" for {', '.join(each.targets)}" if each.targets else ""
            size = f", {bytes_text(each.size)}" if each.size else ""
            yield printable(f"  {each.function}({each.label}){targets}{size}")
        yield from _more(len(coverage.unused))
    if coverage.notes:
        yield ""
        yield from map(printable, coverage.notes)


def summary_lines(coverage: Coverage) -> Iterator[str]:
    """Yield the figures of all."""
    number, tally = coverage.operations
    if number:
        word = "counted as not covered" if coverage.counted_operations else "not counted"
        yield (
            f"{counted(number, 'operation')} of jax outside of any jit, {word}: "
            f"{counted(tally.calls, 'call')}, {tally.seconds:,.1f} s to compile"
        )
    padded = coverage.of(State.PADDED)
    if padded:
        calls = sum(each.tally.calls for each in padded)
        waste = f"{coverage.waste:.0%} of the padded arrays is padding"
        yield f"padded: {counted(calls, 'call')}; {waste}"
    shares = {measure: coverage.share(measure) for measure in Measure}
    signatures = shares[Measure.SIGNATURES]
    yield (
        f"covered: {shares[Measure.CALLS]} of calls, {shares[Measure.SECONDS]} of the seconds to "
        f"compile, {int(signatures.covered):,} of {counted(int(signatures.total), 'signature')}"
    )


def call_line(called: Called) -> str:
    """Return a signature that was called, and what it costs."""
    tally = called.tally
    cost = f", {tally.seconds:,.1f} s to compile" if tally.seconds else ""
    return f"{called.function}({called.signature}): {counted(tally.calls, 'call')}{cost}"


def _missing_lines(missing: list[Called]) -> Iterator[str]:
    if not missing:
        return
    yield ""
    yield "not covered"
    for each in missing[:_MOST_LISTED]:
        yield printable(f"  {call_line(each)}")
        yield from (printable(f"    {reason}") for reason in each.serving.reasons)
    yield from _more(len(missing))


def _more(count: int) -> Iterator[str]:
    if count > _MOST_LISTED:
        yield f"  and {count - _MOST_LISTED:,} more, which --json lists"


def _calls(called: list[Called], state: State) -> str:
    calls = sum(each.tally.calls for each in called if each.state is state)
    return f"{calls:,}" if calls else "-"
