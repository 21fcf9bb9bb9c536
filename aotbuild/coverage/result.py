"""The result of a comparison: each signature that was called, and those that nobody called."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aotbuild.record.recording import Tally


class State(enum.StrEnum):
    """What serves the calls of a signature.

    EXACT: an executable of its own. PADDED: that of a larger size. PORTABLE: only a portable form,
    which is compiled when it is called. MISSING: nothing.
    """

    EXACT = "exact"
    PADDED = "padded"
    PORTABLE = "portable"
    MISSING = "missing"

    @property
    def is_covered(self) -> bool:
        """Whether such calls compile nothing."""
        return self in (State.EXACT, State.PADDED)


class Measure(enum.StrEnum):
    """By what coverage is counted."""

    CALLS = "calls"
    SECONDS = "seconds"
    SIGNATURES = "signatures"


@dataclass(frozen=True)
class Serving:
    """What serves a signature that was called.

    Attributes:
        state: How it is served.
        key: What tells the compiled signature from others; empty if none serves.
        label: The compiled signature as the manifest writes it, as `batch=8`.
        waste: The part of the padded arrays that is padding, from 0 to 1.
        reasons: Why nothing serves it, and what else there is to know, a line each.
    """

    state: State
    key: str = ""
    label: str = ""
    waste: float = 0.0
    reasons: tuple[str, ...] = ()


def best(found: Sequence[tuple[str, Serving]], reason: str) -> tuple[str, Serving]:
    """Return what serves a call best, with the name of its function; `reason` if there is none."""
    order = [*State]
    nothing = "", Serving(State.MISSING, reasons=(reason,))
    return min(found, key=lambda pair: order.index(pair[1].state), default=nothing)


@dataclass(frozen=True)
class Called:
    """A signature that was called.

    Attributes:
        function: The function as the recording names it, as `module:qualname`.
        name: Its name in the package or the manifest; empty if it is not there.
        signature: The arguments, as text.
        tally: How often it was called, and how long it was compiled.
        serving: What serves it.
        place: The file and line of the function; empty if unknown.
    """

    function: str
    name: str
    signature: str
    tally: Tally
    serving: Serving
    place: str = ""

    @property
    def state(self) -> State:
        """How it is served."""
        return self.serving.state


@dataclass(frozen=True)
class Compiled:
    """A signature that is compiled, or is to be.

    Attributes:
        function: The name of its function.
        key: What tells it from others.
        label: The signature as the manifest writes it, as `batch=8`.
        targets: What it is compiled for; empty if a manifest says it.
        size: The bytes of its executables; 0 if it is not compiled yet.
    """

    function: str
    key: str
    label: str
    targets: tuple[str, ...] = ()
    size: int = 0


@dataclass(frozen=True)
class Share:
    """How much of something is covered."""

    covered: float
    total: float

    @property
    def percent(self) -> float:
        """From 0 to 100; 100 where there is nothing to cover."""
        return 100.0 * self.covered / self.total if self.total else 100.0

    @property
    def is_whole(self) -> bool:
        """Whether all is covered."""
        return self.covered >= self.total

    def __str__(self) -> str:
        """Return as `99.9%`: rounded down, so that 100% means all."""
        if not self.total:
            return "-"
        return "100%" if self.is_whole else f"{min(int(self.percent * 10) / 10, 99.9):.1f}%"


@dataclass(frozen=True)
class Coverage:
    """A comparison of calls with what is compiled.

    Attributes:
        place: The package or the manifest.
        called: Each signature that was called, by function, those that cost most first.
        unused: What is compiled, and served no call.
        operations: The calls of jax's own operations, outside of any jit, and their number.
        notes: What else people should know, as that the recording is of another version.
    """

    place: str
    called: tuple[Called, ...]
    unused: tuple[Compiled, ...]
    operations: tuple[int, Tally] = (0, Tally())
    notes: tuple[str, ...] = ()
    counted_operations: bool = False

    def share(self, measure: Measure, called: Iterable[Called] | None = None) -> Share:
        """Return how much is covered, of all or of some signatures."""
        some = self.called if called is None else [*called]
        covered = sum(_amount(each, measure) for each in some if each.state.is_covered)
        total = sum(_amount(each, measure) for each in some)
        if called is None and self.counted_operations:
            number, tally = self.operations
            total += {
                Measure.CALLS: tally.calls,
                Measure.SECONDS: tally.seconds,
                Measure.SIGNATURES: number,
            }[measure]
        return Share(covered, total)

    def of(self, *states: State) -> list[Called]:
        """Return the signatures that are served in one of some ways."""
        return [each for each in self.called if each.state in states]

    @cached_property
    def functions(self) -> dict[str, list[Called]]:
        """The signatures by function, in order."""
        found: dict[str, list[Called]] = {}
        for each in self.called:
            found.setdefault(each.function, []).append(each)
        return found

    @property
    def waste(self) -> float:
        """The part of what padded calls computed that was padding, by calls, from 0 to 1."""
        padded = self.of(State.PADDED)
        calls = sum(each.tally.calls for each in padded)
        return sum(e.serving.waste * e.tally.calls for e in padded) / calls if calls else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        number, tally = self.operations
        return {
            "place": self.place,
            "covered": {
                str(measure): {"covered": s.covered, "total": s.total, "percent": s.percent}
                for measure in Measure
                for s in [self.share(measure)]
            },
            "padding_waste": self.waste,
            "functions": [*self._functions_json()],
            "unused": [vars(each) | {"targets": [*each.targets]} for each in self.unused],
            "operations": {
                "count": number,
                "calls": tally.calls,
                "compile_seconds": tally.seconds,
                "counted": self.counted_operations,
            },
            "notes": [*self.notes],
        }

    def _functions_json(self) -> Iterator[dict[str, Any]]:
        for function, called in self.functions.items():
            share = self.share(Measure.CALLS, called)
            yield {
                "call": function,
                "name": called[0].name or None,
                "file": called[0].place,
                "calls": share.total,
                "covered_calls": share.covered,
                "signatures": [
                    {
                        "signature": each.signature,
                        "state": str(each.state),
                        "calls": each.tally.calls,
                        "compile_seconds": each.tally.seconds,
                        "served_by": each.serving.label or None,
                        "waste": each.serving.waste,
                        "reasons": [*each.serving.reasons],
                    }
                    for each in called
                ],
            }


def _amount(called: Called, measure: Measure) -> float:
    if measure is Measure.SIGNATURES:
        return 1
    return called.tally.calls if measure is Measure.CALLS else called.tally.seconds
