"""The events of a build, and the progress of one job: what its worker said so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from aotbuild.build.plan import BuildUnit
from aotbuild.build.protocol import (
    Compiled,
    CompileStarted,
    Failed,
    GoldenFailed,
    GoldenMade,
    GoldenSkipped,
    GoldenStarted,
    PaddingFailed,
    PaddingStarted,
    Reply,
)
from aotbuild.errors import UnitFailure
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function


@dataclass(frozen=True)
class UnitDone:
    """A finished unit: its record and function, or why it failed. `notes` are for the user."""

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
    """Do nothing: the listener of a build that nobody watches."""
    del event


# The stages of a unit, as failures name them; `compile` and `trace` come from the worker, too.
START, TRACE, COMPILE, PAD, GOLDEN = "start", "trace", "compile", "pad", "golden"

_MEANT = "is meant for, by verify: {inputs: module:function}"
# After an exception, and after the worker exited.
RAISED_ADVICE = f"Give arguments that it {_MEANT}."
EXITED_ADVICE = f"Give arguments that it {_MEANT}, or set verify: {{golden: never}}."
NOT_FINITE = (
    "every golden output is NaN or infinite, which proves little; give arguments that the function "
    f"{_MEANT}"
)


@dataclass
class Progress:
    """The units of one job, as far as its worker has come.

    `waiting` are the units without a result, by target. `check` is applied to each result before
    the listener gets it. `compiled` are units that wait for the job's golden outputs, which all of
    them share. `at_work` are the targets that fail if the worker exits now.
    """

    waiting: dict[str, BuildUnit]
    listener: Listener
    check: Callable[[UnitDone], UnitDone]
    golden_mode: str
    compiled: list[tuple[BuildUnit, Compiled]] = field(default_factory=list)
    results: list[UnitDone] = field(default_factory=list)
    stage: str = TRACE
    at_work: tuple[str, ...] = ()

    @property
    def is_unfinished(self) -> bool:
        """Whether anything is left to do."""
        return bool(self.waiting or self.compiled)

    def restart(self) -> None:
        """Begin again with the units that wait: all of them depend on the trace."""
        self.stage, self.at_work = TRACE, tuple(self.waiting)

    def receive(self, message: Reply) -> None:
        """Take a message of the worker."""
        match message:
            case CompileStarted(target=target):
                self.stage, self.at_work = COMPILE, (target,)
                self.listener(UnitStarted(self.waiting[target]))
            case Compiled(target=target):
                self.compiled.append((self._leave(target), message))
            case Failed(target=target, stage=stage, error=error):
                self._fail(self._leave(target), stage, error)
            case PaddingStarted():
                self.stage, self.at_work = PAD, ()
            case PaddingFailed(error=error):
                self._fail_compiled(PAD, error)
            case GoldenStarted():
                self.stage, self.at_work = GOLDEN, ()
            case GoldenMade() | GoldenSkipped():
                self._complete(message)
            case GoldenFailed(error=error):
                self._fail_compiled(GOLDEN, error)

    def end(self) -> None:
        """Finish the job: units that still wait for golden outputs have none."""
        self._complete(GoldenSkipped(reason="the function could not be traced again"))

    def worker_exited(self, text: str, reason: str) -> None:
        """Give up what the worker was doing when it exited: units, or their golden outputs.

        `text` is for the user, `reason` for the record, so that it names no path.
        """
        for target in self.at_work:
            self._fail(self.waiting.pop(target), self.stage, text)
        if self.at_work:
            return
        if self.stage == PAD:
            self._fail_compiled(PAD, f"calling the function with padded arguments: {text}")
        elif self.golden_mode == "always":
            error = f"calling the function with golden inputs: {text}\n{EXITED_ADVICE}"
            self._fail_compiled(GOLDEN, error)
        else:
            note = f"no golden outputs: calling the function: {reason}\n{EXITED_ADVICE}"
            self._complete(GoldenSkipped(reason=reason, notes=(note,)))

    def _leave(self, target: str) -> BuildUnit:
        """Return a unit that waits no more; the worker goes on to the next."""
        unit = self.waiting.pop(target)
        self.at_work = tuple(self.waiting)[:1]
        return unit

    def _complete(self, golden: GoldenMade | GoldenSkipped) -> None:
        for unit, compiled in self.compiled:
            self._finish(_with_golden(unit, compiled, golden))
        self.compiled.clear()

    def _fail_compiled(self, stage: str, error: str) -> None:
        for unit, _ in self.compiled:
            self._fail(unit, stage, error)
        self.compiled.clear()

    def _fail(self, unit: BuildUnit, stage: str, error: str) -> None:
        self._finish(UnitDone(unit, failure=UnitFailure(str(unit), stage, error)))

    def _finish(self, result: UnitDone) -> None:
        result = self.check(result)
        self.results.append(result)
        self.listener(result)


def _with_golden(
    unit: BuildUnit, compiled: Compiled, golden: GoldenMade | GoldenSkipped
) -> UnitDone:
    record = compiled.record
    if isinstance(golden, GoldenMade):
        provenance = {**record.provenance, "floats": list(golden.floats)}
        record = replace(record, golden=golden.golden, provenance=provenance)
    else:
        record = replace(record, provenance={**record.provenance, "golden": golden.reason})
    return UnitDone(unit, compiled.function, record, notes=(*compiled.notes, *golden.notes))
