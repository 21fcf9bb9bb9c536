"""Outcomes: what one check found, what a child process loaded, and the whole report."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.target import HOST

# Checks of one record each, and why the second is not made where the first failed.
LOAD, GOLDEN = "load", "golden"
NOT_LOADED = "it was not loaded"


class Status(enum.Enum):
    """How a check ended; the values are part of the JSON document."""

    PASS = "PASS"  # noqa: S105 - not a password
    FAIL = "FAIL"
    CRASHED = "CRASHED"
    TIMED_OUT = "TIMED OUT"
    NOT_CHECKED = "NOT CHECKED"

    @property
    def is_failure(self) -> bool:
        """Whether it speaks against the package."""
        return self in (Status.FAIL, Status.CRASHED, Status.TIMED_OUT)


# How a check ended, and why.
Result = tuple[Status, list[str]]


@dataclass(frozen=True)
class Outcome:
    """The result of one check: its name, what it looked at, and why it did not simply pass."""

    check: str
    subject: str
    status: Status
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as documents of commands have it."""
        return {
            "check": self.check,
            "subject": self.subject,
            "status": self.status.value,
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True)
class Report:
    """Everything that was checked of one place, in the order of checking."""

    place: str
    kind: str
    package: str | None
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed; what was not checked does not count."""
        return not any(outcome.status.is_failure for outcome in self.outcomes)

    def count(self, status: Status) -> int:
        """Return how many checks ended so."""
        return sum(outcome.status is status for outcome in self.outcomes)

    @property
    def not_loaded(self) -> dict[str, int]:
        """How many executables were not loaded, by their first reason, the most frequent first."""
        loads = [o for o in self.outcomes if (o.check, o.status) == (LOAD, Status.NOT_CHECKED)]
        first = (outcome.reasons[0].partition("\n")[0] for outcome in loads if outcome.reasons)
        return dict(Counter(first).most_common())


def concluded(check: str, subject: str, problems: Iterable[str]) -> Outcome:
    """Return FAIL with all problems, or PASS if there is none."""
    reasons = tuple(problems)
    return Outcome(check, subject, Status.FAIL if reasons else Status.PASS, reasons)


def not_checked(check: str, subject: str, reason: str) -> Outcome:
    """Return an outcome for what could not or must not be looked at."""
    return Outcome(check, subject, Status.NOT_CHECKED, (reason,))


@dataclass(frozen=True)
class Callee:
    """A loaded executable, as it is called: numpy arrays in and out, PRNG keys as their data.

    `physical` returns the shape and the numpy dtype in which an aval is stored.
    """

    run: Callable[[Iterable[Any]], list[Any]]
    physical: Callable[[Aval], tuple[tuple[int, ...], Any]]


@dataclass(frozen=True)
class Loaded:
    """The result of loading a record: the status and, if it passed, what can be called.

    `no_call` says why it cannot be called here.
    """

    status: Status
    reasons: tuple[str, ...] = ()
    callee: Callee | None = None
    platform: str = HOST
    no_call: str | None = None
