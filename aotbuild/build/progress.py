"""Events of a build for whoever listens, and how far one job is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aotbuild.build.plan import BuildUnit
from aotbuild.errors import UnitFailure
from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_from_json
from aotbuild.spec.signature import Function


@dataclass(frozen=True)
class UnitDone:
    """A unit's end: its record and function, or why it failed; `notes` are for the user."""

    unit: BuildUnit
    function: Function | None = None
    record: Record | None = None
    failure: UnitFailure | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnitStarted:
    """A worker began to compile this unit."""

    unit: BuildUnit


Event = UnitStarted | UnitDone
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Hear an event and do nothing."""
    del event


_MEANT = "is meant for, by verify: {inputs: module:function}"

# After an exception, and after the death of the worker.
RAISED_ADVICE = f"Give arguments that it {_MEANT}."
DIED_ADVICE = f"Give arguments that it {_MEANT}, or set verify: {{golden: never}}."
NOT_FINITE = (
    "every golden output is NaN or infinite, which proves little; give arguments that the function "
    f"{_MEANT}"
)


def no_golden(reason: str, *notes: str) -> dict[str, Any]:
    """Return a worker's message that there are none: why, as the record keeps it, and notes."""
    return {"golden": None, "reason": reason, "notes": list(notes)}


GOLDEN, START, PAD = "golden", "start", "pad"
Message = dict[str, Any]


@dataclass
class Progress:
    """The units of one job.

    `waiting` have no result, by target. `check` makes each result what everybody hears of. `held`
    are compiled and wait for the job's golden outputs, which all of them share.
    """

    waiting: dict[str, BuildUnit]
    listener: Listener
    check: Callable[[UnitDone], UnitDone]
    golden_mode: str
    held: list[tuple[BuildUnit, Message]] = field(default_factory=list)
    results: list[UnitDone] = field(default_factory=list)
    stage: str = "trace"
    at_work: tuple[str, ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """Whether anything is left to do."""
        return bool(self.waiting or self.held)

    def restart(self) -> None:
        """Begin again with what is waiting: all of it hangs on the trace."""
        self.stage, self.at_work = "trace", tuple(self.waiting)

    def hear(self, message: Message) -> None:
        """Take a message of the worker."""
        if "start" in message:
            self.stage, self.at_work = "compile", (message["start"],)
            self.listener(UnitStarted(self.waiting[message["start"]]))
        elif "pad_start" in message:
            self.stage, self.at_work = PAD, ()
        elif "pad_error" in message:
            self._fail_held(message["pad_error"], PAD)
        elif "golden_start" in message:
            self.stage, self.at_work = GOLDEN, ()
        elif "golden" in message:
            self._complete(message)
        elif "golden_error" in message:
            self._fail_held(message["golden_error"])
        else:
            self._hear_unit(message)

    def end(self) -> None:
        """Take it that the worker has said all: what is still held has no golden outputs."""
        self._complete(no_golden("the function could not be traced again"))

    def fail(self, death: str, reason: str) -> None:
        """Give up what the worker was at when it died: units, or their golden outputs.

        `death` is for the user, `reason` for the record: it names no path.
        """
        for target in self.at_work:
            unit = self.waiting.pop(target)
            self._finish(UnitDone(unit, failure=UnitFailure(str(unit), self.stage, death)))
        if self.at_work:
            return
        if self.stage == PAD:
            self._fail_held(f"calling the function with padded arguments: {death}", PAD)
        elif self.golden_mode == "always":
            self._fail_held(f"calling the function with golden inputs: {death}\n{DIED_ADVICE}")
        else:
            note = f"no golden outputs: calling the function: {reason}\n{DIED_ADVICE}"
            self._complete(no_golden(reason, note))

    def _hear_unit(self, message: Message) -> None:
        unit = self.waiting.pop(message["target"])
        self.at_work = tuple(self.waiting)[:1]
        if "error" in message:
            failure = UnitFailure(str(unit), message["stage"], message["error"])
            self._finish(UnitDone(unit, failure=failure))
        else:
            self.held.append((unit, message))

    def _complete(self, golden: Message) -> None:
        for unit, message in self.held:
            self._finish(_with_golden(unit, message, golden))
        self.held.clear()

    def _fail_held(self, text: str, stage: str = GOLDEN) -> None:
        for unit, _ in self.held:
            self._finish(UnitDone(unit, failure=UnitFailure(str(unit), stage, text)))
        self.held.clear()

    def _finish(self, result: UnitDone) -> None:
        result = self.check(result)
        self.results.append(result)
        self.listener(result)


def _with_golden(unit: BuildUnit, message: Message, golden: Message) -> UnitDone:
    data = message["record"]
    known = golden.get("provenance", {}) if golden["golden"] else {"golden": golden["reason"]}
    provenance = {**data["provenance"], **known}
    record = record_from_json({**data, "golden": golden["golden"], "provenance": provenance})
    function = Function.from_json(message["function"])
    notes = (*message["notes"], *golden["notes"])
    return UnitDone(unit, function, record, notes=notes)
