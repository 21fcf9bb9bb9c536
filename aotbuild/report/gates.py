"""Limits to what a new package may cost more, or cover less, than the old one.

docs/how-to/ci.md defines each gate for users.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import accumulate
from math import comb
from statistics import median
from typing import Any

from aotbuild.report.diff import executable_names
from aotbuild.report.facts import PackageFacts, total_size
from aotbuild.report.words import bytes_text, change_text, plural, shown

SIZE, COVERAGE, COLD_START = "size", "coverage", "cold-start"
_PERCENT = re.compile(r"\+([0-9]{1,9}(?:\.[0-9]{1,9})?)%")
_COUNT = re.compile(r"[0-9]{1,9}")
_FORMS = {
    SIZE: (_PERCENT, "+N%, as +5%"),
    COVERAGE: (_COUNT, "a whole number, as 0"),
    COLD_START: (_PERCENT, "+N%, as +10%"),
}
GATE_HEADERS = ("gate", "limit", "old", "new", "change", "result")
_MOST_NAMES = 20
# How often a package fails that is as slow as the limit allows; a faster one fails less often.
_CHANCE = 0.01
Times = Mapping[str, tuple[Sequence[float], Sequence[float]]]


@dataclass(frozen=True)
class Limit:
    """One gate: its name, and its limit as it was written and as a number."""

    gate: str
    text: str
    number: float


def parse_limits(text: str) -> tuple[Limit, ...]:
    """Return the gates of `size=+5%,coverage=0`; ValueError says what is wrong."""
    found: dict[str, Limit] = {}
    for item in text.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in _FORMS:
            near = get_close_matches(name, _FORMS, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            msg = f"expected gates among {', '.join(_FORMS)}, found {name!r}{hint}"
            raise ValueError(msg)
        form, expected = _FORMS[name]
        match = form.fullmatch(value)
        if match is None:
            meant = next((t for t in (f"+{value}", f"+{value}%") if form.fullmatch(t)), "")
            hint = f" (did you mean '{name}={meant}'?)" if meant else ""
            msg = f"{name}: expected {expected}, found {value!r}{hint}"
            raise ValueError(msg)
        if name in found:
            msg = f"{name} is there twice"
            raise ValueError(msg)
        found[name] = Limit(name, value, float(match[1] if match.groups() else match[0]))
    return tuple(found.values())


@dataclass(frozen=True)
class Judged:
    """A gate, what was found, and why it fails: None if it passes.

    Numbers are bytes, executables or milliseconds; None if it was not measured.
    """

    limit: Limit
    old: float | None
    new: float | None
    change: str
    reason: str | None
    details: tuple[str, ...] = ()

    @property
    def row(self) -> tuple[str, ...]:
        """Its cells below GATE_HEADERS."""
        gate = self.limit.gate
        old, new = ("-" if n is None else _TEXTS[gate](n) for n in (self.old, self.new))
        return gate, self.limit.text, old, new, self.change, "failed" if self.reason else "passed"

    def to_json(self) -> dict[str, Any]:
        """Return it as data; see docs/reference/inspect.md."""
        return {
            "gate": self.limit.gate,
            "limit": self.limit.text,
            "passed": self.reason is None,
            "old": self.old,
            "new": self.new,
            "reason": self.reason,
            "details": [*self.details],
        }


def is_exceeded(limit: Limit, old: float, new: float) -> bool:
    """Return whether `new` is above a limit in percent of `old`."""
    return new > old * (1 + limit.number / 100)


def judge_size(limit: Limit, old: PackageFacts, new: PackageFacts) -> Judged:
    """Compare what both packages take on disk."""
    before, after = total_size(old), total_size(new)
    change = change_text(before, after) or "-"
    sizes = f"{bytes_text(before)} → {bytes_text(after)}"
    reason = f"size: {sizes} ({change}), more than {limit.text}"
    closed = is_exceeded(limit, before, after)
    return Judged(limit, before, after, change, reason if closed else None)


def judge_coverage(limit: Limit, old: PackageFacts, new: PackageFacts) -> Judged:
    """Count the executables of the old package that have none of their signature and target now."""
    before, after = executable_names(old, new), executable_names(new, old)
    lost = [name for key, name in before.items() if key not in after]
    change = f"-{len(lost)} +{len(after.keys() - before.keys())}"
    reason = f"coverage: {plural(len(lost), 'executable')} lost, more than {limit.text}"
    closed = len(lost) > limit.number
    return Judged(limit, len(before), len(after), change, reason if closed else None, _listed(lost))


def judge_cold_start(limit: Limit, times: Times, skipped: Mapping[str, str]) -> Judged:
    """Compare the milliseconds of all functions that were measured; without any, the gate fails.

    Each run measured both packages, and `times` has old and new of every run by function. If the
    new package is within the limit, half of the runs exceed it at most, by chance. So the gate
    fails where more do than chance explains. `skipped` says why functions have no times.
    """
    details = tuple(f"{shown(name)}: not measured: {shown(why)}" for name, why in skipped.items())
    if not times:
        reason = (
            "cold-start: no executable that both packages have runs here; measure on a machine "
            "that runs them, or leave this gate out"
        )
        return Judged(limit, None, None, "not measured", reason, details)
    rows = tuple(f"{shown(name)}: {_ms_pair(*map(median, t))}" for name, t in times.items())
    runs = _sums(times)
    old, new = (median(side) for side in zip(*runs, strict=True))
    change = change_text(old, new) or "-"
    slower = sum(is_exceeded(limit, *run) for run in runs)
    reason = (
        f"cold-start: {_ms_pair(old, new)} ({change}), more than {limit.text} in {slower} of "
        f"{plural(len(runs), 'run')}"
    )
    closed = is_slower(limit, times) and slower >= beyond_chance(len(runs))
    return Judged(limit, old, new, change, reason if closed else None, (*rows, *details))


def is_slower(limit: Limit, times: Times) -> bool:
    """Return whether the medians of all runs exceed the limit, perhaps by chance."""
    return bool(times) and is_exceeded(limit, *map(median, zip(*_sums(times), strict=True)))


def beyond_chance(runs: int) -> int:
    """Return how many of so many tosses of a coin show heads with a probability of 1% at most."""
    tails = accumulate(comb(runs, heads) * 0.5**runs for heads in range(runs, -1, -1))
    return runs + 1 - sum(tail <= _CHANCE for tail in tails)


def _sums(times: Times) -> list[tuple[float, float]]:
    """Return the milliseconds of all functions together, old and new of each run."""
    old, new = (
        [sum(run) for run in zip(*side, strict=True)] for side in zip(*times.values(), strict=True)
    )
    return list(zip(old, new, strict=True))


def _ms(value: float) -> str:
    return f"{value:.1f} ms"


def _ms_pair(old: float, new: float) -> str:
    return f"{_ms(old)} → {_ms(new)}"


def _listed(names: Sequence[str]) -> tuple[str, ...]:
    kept = tuple(f"lost: {name}" for name in names[:_MOST_NAMES])
    more = len(names) - len(kept)
    return (*kept, f"and {more} more") if more > 0 else kept


_TEXTS: dict[str, Callable[[float], str]] = {
    SIZE: bytes_text,
    COVERAGE: "{:g}".format,
    COLD_START: _ms,
}
