"""The results of one job's units, made from what its worker says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from aotbuild.build.jobs import Fed
from aotbuild.build.plan import BuildUnit
from aotbuild.build.progress import Listener, UnitBusy, UnitCompiled, UnitDone, UnitStarted
from aotbuild.build.protocol import Compiled, Done, Failed, GoldenOutputs, Reply, Started
from aotbuild.format.record import DEVICE_BYTES, memory_use
from aotbuild.format.words import bytes_text

# The stages of a unit, as failures name them; `compile` and `trace` come from the worker, too.
START, TRACE, COMPILE, PAD, GOLDEN = "start", "trace", "compile", "pad", "golden"
SHRINK = "shrink"
_DOING = {
    PAD: "checking what padding changes in",
    GOLDEN: "computing golden outputs of",
    SHRINK: "comparing with the plain executable of",
}

_MEANT = "is meant for, by verify: {inputs: module:function}"
# After an exception, and after the worker exited.
RAISED_ADVICE = f"Give arguments that it {_MEANT}."
_ELSEWHERE = "compare it with jax.jit where it runs"
EXITED_ADVICE = f"Give arguments that it {_MEANT}, or set verify: {{golden: never}}; {_ELSEWHERE}."
TOO_MUCH_ADVICE = (
    "verify: {golden: always} computes them all the same. A smaller signature of the function has "
    f"its own; or {_ELSEWHERE}."
)
NOT_FINITE = (
    "every golden output is NaN or infinite, which proves little; give arguments that the function "
    f"{_MEANT}"
)


def plain_kept(problem: str) -> str:
    """Return the note about a rewritten executable that failed a check."""
    return f"shrink: {problem}; the executable is kept as XLA made it. Please report this"


@dataclass
class JobResults:
    """The units of one job, as far as its worker has come.

    `waiting` are the units without a result, by target. `compiled` are units that wait for the
    job's golden outputs, which all of them share. `targets` are those of the current worker, and
    `at_work` those that fail if it exits now. `fed` is what the next call gets, if that has other
    avals. `is_transient` says that another build with the same inputs may give something else.
    """

    waiting: dict[str, BuildUnit]
    listener: Listener
    golden_mode: str
    compiled: list[tuple[BuildUnit, Compiled]] = field(default_factory=list)
    golden: GoldenOutputs | None = None
    targets: tuple[str, ...] = ()
    done: list[UnitDone] = field(default_factory=list)
    stage: str = TRACE
    at_work: tuple[str, ...] = ()
    fed: Fed | None = None
    is_transient: bool = False

    @property
    def is_unfinished(self) -> bool:
        """Whether anything is left to do."""
        return bool(self.waiting or self.compiled)

    def restart(self) -> None:
        """Begin again with the units that are left: `targets`, which all depend on the trace."""
        self.targets = tuple(self.waiting)
        self.stage, self.at_work, self.golden = TRACE, self.targets, None

    def receive(self, message: Reply) -> None:
        """Take a message of the worker."""
        match message:
            case Started():
                self._started(message)
            case Compiled():
                self._compiled(message)
            case Failed(target=None, stage=stage, error=error):
                self._fail_compiled(stage, error)
            case Failed(target=str(target), stage=stage, error=error):
                done = UnitDone(self._leave(target))
                self._finish(done.failed(stage, error))
            case GoldenOutputs():
                self.golden = message
            case Done(fed=fed):
                self.fed = fed

    def _started(self, message: Started) -> None:
        if message.stage == TRACE:
            for target in [each for each in self.targets if each in self.waiting]:
                self.listener(UnitBusy(self.waiting[target], message.doing))
        elif message.target is not None:
            self.stage, self.at_work = COMPILE, (message.target,)
            for target in [each for each in self.targets if each in self.waiting]:
                self.listener(UnitBusy(self.waiting[target], ""))
            self.listener(UnitStarted(self.waiting[message.target]))
        else:  # a check of all units that were compiled
            self.stage, self.at_work = message.stage, ()
            for unit, _ in self.compiled:
                doing = f"{_DOING[message.stage]} {unit.signature_label}"
                self.listener(UnitBusy(unit, doing))

    def end(self) -> None:
        """Finish the job: units that still wait for golden outputs have none."""
        none = GoldenOutputs(reason="the function could not be traced again", transient=True)
        self._complete(self.golden or none)

    def worker_exited(self, text: str, reason: str) -> None:
        """Give up what the worker was doing when it exited: units, or their golden outputs.

        `text` is for the user, `reason` for the record, so that it names no path.
        """
        for target in self.at_work:
            self._finish(UnitDone(self.waiting.pop(target)).failed(self.stage, text))
        if self.at_work:
            return
        if self.stage == SHRINK:
            words = f"comparing the rewritten executable with the plain one: {reason}"
            plain = [
                _plain(message, plain_kept(words)) for _, message in self.compiled if message.plain
            ]
            for message in plain:
                self._compared(message)
            self.is_transient = True
            self.end()
        elif self.stage == PAD:
            self._fail_compiled(PAD, f"calling the function with padded arguments: {text}")
        elif self.golden_mode == "always":
            error = f"calling the function with golden inputs: {text}\n{EXITED_ADVICE}"
            self._fail_compiled(GOLDEN, error)
        else:
            note = f"no golden outputs: calling the function: {reason}\n{EXITED_ADVICE}"
            self._complete(GoldenOutputs(reason=reason, notes=(note,), transient=True))

    def _leave(self, target: str) -> BuildUnit:
        """Return a unit that waits no more; the worker goes on to the next."""
        unit = self.waiting.pop(target)
        self.at_work = tuple(other for other in self.targets if other in self.waiting)[:1]
        return unit

    def _compiled(self, message: Compiled) -> None:
        target = message.target
        if target not in self.waiting:
            self._compared(message)
            return
        unit = self._leave(target)
        self.compiled.append((unit, message))
        self.listener(UnitCompiled(unit))

    def _compared(self, message: Compiled) -> None:
        """Take what a unit is after its rewritten executable was compared with the plain one."""
        self.is_transient |= "note" in message.record.provenance.get("shrink", {})
        self.compiled = [
            (unit, message if compiled.target == message.target else compiled)
            for unit, compiled in self.compiled
        ]

    def _complete(self, golden: GoldenOutputs) -> None:
        is_transient = self.is_transient or golden.transient
        for unit, compiled in self.compiled:
            self._finish(_with_golden(unit, compiled, golden, is_transient=is_transient))
        self.compiled.clear()

    def _fail_compiled(self, stage: str, error: str) -> None:
        for unit, compiled in self.compiled:
            self._finish(UnitDone(unit, compiled.function, compiled.record).failed(stage, error))
        self.compiled.clear()

    def _finish(self, result: UnitDone) -> None:
        result = _with_device_memory(result)
        self.done.append(result)
        self.listener(result)


def _with_device_memory(done: UnitDone) -> UnitDone:
    """Return a result with its device's memory in the record, and a note if it needs more."""
    unit, available = done.unit, done.unit.hardware.memory
    if done.record is None or available is None or unit.target.is_portable:
        return done
    record = replace(done.record, analysis={**done.record.analysis, DEVICE_BYTES: available})
    use = memory_use(record.analysis)
    if use is None or use.needed <= available:
        return replace(done, record=record)
    note = (
        f"{unit.target}: one device needs {bytes_text(use.needed)}; "
        f"{unit.hardware.kind or unit.target.detail} has {bytes_text(available)}. Make a dim "
        "smaller, spread it over more devices (mesh:), or donate arguments whose buffers the "
        "results can take"
    )
    return replace(done, record=record, notes=(*done.notes, note))


def compared(compiled: Compiled, note: str) -> Compiled:
    """Return a unit after the comparison that `plain` waits for: it is kept, or with a note not."""
    if note:
        return _plain(compiled, note)
    provenance = {**compiled.record.provenance, "shrink": {"check": "compared"}}
    record = replace(compiled.record, provenance=provenance)
    return compiled.model_copy(update={"record": record, "plain": None})


def _plain(compiled: Compiled, note: str) -> Compiled:
    """Return a unit with its plain executable; the note says why."""
    record = replace(
        compiled.record,
        blob=compiled.plain or compiled.record.blob,
        provenance={**compiled.record.provenance, "shrink": {"note": note}},
    )
    notes = (*compiled.notes, note)
    return compiled.model_copy(update={"record": record, "plain": None, "notes": notes})


def _with_golden(
    unit: BuildUnit, compiled: Compiled, golden: GoldenOutputs, *, is_transient: bool
) -> UnitDone:
    record = compiled.record
    if golden.golden is not None:
        provenance = {**record.provenance, "floats": list(golden.floats)}
        record = replace(record, golden=golden.golden, provenance=provenance)
    else:
        record = replace(record, provenance={**record.provenance, "golden": golden.reason})
    notes = (*compiled.notes, *golden.notes)
    return UnitDone(
        unit, compiled.function, record, notes=notes, stored=compiled.stored, transient=is_transient
    )
