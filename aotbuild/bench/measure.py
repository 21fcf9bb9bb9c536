"""Fresh processes, one for each form of each executable and each run, in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from aotbuild.bench.forms import WHEEL, Subject
from aotbuild.verify.fresh import run_fresh

_CHILD = "aotbuild.bench.child"


@dataclass(frozen=True)
class Run:
    """One process: milliseconds to load, of the first call and of a warm one; bytes of memory.

    `memory_bytes` is how much loading and the first call added to the most memory that the process
    has had. Arguments are part of it; they are the same for every form.
    """

    load_ms: float
    first_ms: float
    steady_ms: float
    memory_bytes: float

    @property
    def first_result_ms(self) -> float:
        """From nothing loaded to the first result."""
        return self.load_ms + self.first_ms


@dataclass(frozen=True)
class Measured:
    """What was measured of an executable: for each form its runs, or why there are none."""

    subject: Subject
    runs: dict[str, list[Run]]
    skipped: dict[str, str]

    def middle(self, form: str) -> Run | None:
        """Return the medians of the runs of a form; None if there are none."""
        runs = self.runs.get(form)
        if not runs:
            return None
        columns = ([getattr(run, each.name) for run in runs] for each in fields(Run))
        return Run(*map(median, columns))

    def ratio(self, form: str) -> float | None:
        """Return how long a form takes to its first result, as a multiple of the wheel's time."""
        here, there = self.middle(WHEEL), self.middle(form)
        return there.first_result_ms / here.first_result_ms if here and there else None

    def to_json(self) -> dict[str, Any]:
        """Return it as data; see docs/reference/cli.md."""
        record = self.subject.record
        return {
            "function": record.function,
            "signature": [str(aval) for aval in record.signature.leaves],
            "statics": record.signature.describe_statics(),
            "target": str(record.target),
            "forms": {form: self._form(form) for form in (*self.runs, *self.skipped)},
        }

    def _form(self, form: str) -> dict[str, Any]:
        middle = self.middle(form)
        if middle is None:
            return {"skipped": self.skipped[form]}
        runs = [vars(run) for run in self.runs[form]]
        return {**vars(middle), "ratio": self.ratio(form), "runs": runs}


def measure(
    subjects: Sequence[Subject],
    runs: int,
    timeout: float,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Measured]:
    """Measure all forms of some executables, in rounds, so that what slows one down slows all.

    `timeout` is in seconds, for one process. A form that fails once is not tried again; where the
    executable does not run here, no other form is measured.
    """
    found = [Measured(subject, {}, dict(subject.missing)) for subject in subjects]
    for number in range(runs):
        for each in found:
            progress(f"[{number + 1}/{runs}] {each.subject}")
            for form in _in_turn(each.subject.forms, number):
                _measure(each, form, timeout)
    return found


def _in_turn(forms: dict[str, Any], number: int) -> list[str]:
    """Return the forms in another order for each run; the wheel's is the first one's first."""
    names = [*forms]
    start = number % len(names)
    return names[start:] + names[:start]


def _measure(found: Measured, form: str, timeout: float) -> None:
    if WHEEL in found.skipped or form in found.skipped:
        return
    subject = found.subject
    asked = {
        "form": form,
        "job": subject.forms[form].to_json(),
        "wanted": subject.forms[WHEEL].to_json(),
    }
    got: Any = run_fresh(_CHILD, asked, subject.forms[WHEEL].environment(os.environ), timeout)
    refused = got if isinstance(got, str) else got.get("refused")
    if refused is None:
        found.runs.setdefault(form, []).append(Run(**got))
    else:
        found.skipped[form] = refused
        found.runs.pop(form, None)
        if form == WHEEL:
            found.runs.clear()
