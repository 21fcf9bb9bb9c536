"""The events of a build, and what it says of them: a line for each unit, and where time went."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from aotbuild.build.plan import BuildUnit
from aotbuild.errors import UnitFailure
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.words import bytes_text, plural

WAITING, COMPILING, COMPILED, DONE, FAILED = "waiting", "compiling", "compiled", "done", "failed"
# After so many seconds without a line, and after twice as many each time, up to the last.
FIRST_REMINDER, _LAST_REMINDER = 1.0, 60.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class UnitDone:
    """A finished unit: its record and function, or why it failed. `notes` are for the user.

    `stored` says that the store had its executable, and `transient` that another build with the
    same inputs may give something else.
    """

    unit: BuildUnit
    function: Function | None = None
    record: Record | None = None
    failure: UnitFailure | None = None
    notes: tuple[str, ...] = ()
    stored: bool = False
    transient: bool = False

    def failed(self, stage: str, message: str) -> UnitDone:
        """Return this unit as one that failed after it was compiled."""
        failure = UnitFailure(str(self.unit), stage, message)
        return UnitDone(self.unit, failure=failure)


@dataclass(frozen=True)
class UnitStarted:
    """A worker began to compile this unit."""

    unit: BuildUnit


@dataclass(frozen=True)
class UnitBusy:
    """What is done for this unit before or after it is compiled, as `tracing f(batch=1)`.

    An empty text says that this is over.
    """

    unit: BuildUnit
    doing: str


@dataclass(frozen=True)
class UnitCompiled:
    """A unit's executable was made, and is now checked or waits for the others of its trace."""

    unit: BuildUnit


Event = UnitStarted | UnitBusy | UnitCompiled | UnitDone
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing: the listener of a build that nobody watches."""
    del event


@dataclass
class Step:
    """What a worker did for a unit, from `start` to `end`, in seconds since the build began."""

    doing: str
    start: float
    end: float | None = None


@dataclass
class UnitState:
    """What is known of a unit so far. Times are in seconds, `size` is in bytes.

    `stored`: the store had it. Units of one trace share the steps before and after they are
    compiled.
    """

    unit: BuildUnit
    state: str = WAITING
    started: float | None = None
    seconds: float | None = None
    size: int | None = None
    stored: bool = False
    steps: list[Step] = field(default_factory=list)

    def begin(self, doing: str, now: float) -> None:
        """End the step at work, and begin another unless `doing` is empty."""
        if self.at_work:
            self.at_work.end = now
        if doing:
            self.steps.append(Step(doing, now))

    @property
    def at_work(self) -> Step | None:
        """The step that has not ended."""
        return self.steps[-1] if self.steps and self.steps[-1].end is None else None

    def end(self, event: UnitDone, now: float) -> None:
        """Take how it ended."""
        self.state = DONE if event.failure is None else FAILED
        self.size = event.record.blob.size if event.record else None
        self.stored = event.stored
        if self.started is not None:
            self.seconds = round(now - self.started, 3)

    def __str__(self) -> str:
        facts = [] if self.size is None else [bytes_text(self.size)]
        facts += [] if self.seconds is None else [f"{self.seconds:.1f} s"]
        facts += ["from the store"] if self.stored else []
        tail = f"  ({', '.join(facts)})" if facts else ""
        return f"{self.state}: {self.unit}{tail}"


class Tracker:
    """Keeps the state of each unit from the events of a build, which come from several threads.

    `say` gets a line for each unit that ends. Units that are not in the plan, those of `feedback:`,
    come last.
    """

    def __init__(
        self,
        units: Sequence[BuildUnit],
        say: Say = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # By identity: units with the static values 1 and True compare equal.
        self._states = {id(unit): UnitState(unit) for unit in units}
        self._say, self.clock = say, clock
        self._began = clock()
        self._lock = threading.Lock()

    @property
    def states(self) -> list[UnitState]:
        """The state of every unit, in the plan's order."""
        return list(self._states.values())

    @property
    def ended(self) -> int:
        """How many units have ended."""
        return sum(state.state in (DONE, FAILED) for state in self.states)

    def __call__(self, event: Event) -> None:
        """Take an event."""
        with self._lock:
            now = self.clock()
            state = self._states.setdefault(id(event.unit), UnitState(event.unit))
            doing = event.doing if isinstance(event, UnitBusy) else ""
            if isinstance(event, UnitStarted):
                doing = f"compiling {event.unit}"
                state.state, state.started = COMPILING, now
            state.begin(doing, round(now - self._began, 3))
            if isinstance(event, UnitCompiled):
                state.state = COMPILED
            if isinstance(event, UnitDone):
                state.end(event, now)
                self._say(f"[{self.ended}/{len(self._states)}] {state}")

    def doing(self) -> str:
        """Return what has taken longest so far, how many other steps go on, and what is left.

        Empty if nothing goes on.
        """
        with self._lock:
            steps = [step for state in self._states.values() if (step := state.at_work)]
            now, total = self.clock() - self._began, len(self._states)
        if not steps:
            return ""
        longest = min(steps, key=lambda step: step.start)
        others = len({step.doing for step in steps}) - 1
        more = f", and {others} more" if others else ""
        left = f"{total - self.ended} of {plural(total, 'unit')} left"
        return f"{longest.doing} ({now - longest.start:.0f} s){more}; {left}"


@contextmanager
def reminders(tracker: Tracker, say: Say) -> Iterator[None]:
    """Say what is waited for where nothing else is said."""
    over = threading.Event()
    thread = threading.Thread(target=_remind, args=(tracker, say, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _remind(tracker: Tracker, say: Say, over: threading.Event) -> None:
    """Say what is waited for where nothing else was said, at longer and longer intervals."""
    patience, ended = FIRST_REMINDER, 0
    while not over.wait(patience):
        if ended != tracker.ended:
            ended, patience = tracker.ended, FIRST_REMINDER
        elif doing := tracker.doing():
            say(doing)
            patience = min(2 * patience, _LAST_REMINDER)
