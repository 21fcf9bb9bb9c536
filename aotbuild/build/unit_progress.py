"""The state of each unit during a build, and the lines that a build says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from aotbuild.build.events import Event, UnitBusy, UnitDone, UnitStarted
from aotbuild.build.plan import BuildUnit
from aotbuild.format.words import bytes_text, plural

if TYPE_CHECKING:
    from aotbuild.build.pack import Package

WAITING, COMPILING, DONE, FAILED = "waiting", "compiling", "done", "failed"
# After so many seconds without a line, and after twice as many each time, up to the last.
FIRST_REMINDER, _LAST_REMINDER = 1.0, 60.0
Say = Callable[[str], None]


@dataclass
class UnitState:
    """What is known of a unit so far. Times are in seconds, `size` is in bytes.

    `doing` is what its worker does when it does not compile, or with `waits` what it waits for.
    `stored`: the store had it.
    """

    unit: BuildUnit
    state: str = WAITING
    started: float | None = None
    seconds: float | None = None
    size: int | None = None
    doing: str | None = None
    waits: bool = False
    stored: bool = False


class Tracker:
    """Keeps the state of each unit from the events of a build, which come from several threads.

    `finished` is called for each unit that ends, one at a time, with the number of ended units and
    of all. Units that are not in the plan, those of `feedback:`, come last.
    """

    def __init__(
        self,
        units: Sequence[BuildUnit],
        finished: Callable[[UnitState, int, int], None] = lambda *_: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # By identity: units with the static values 1 and True compare equal.
        self._states = {id(unit): UnitState(unit) for unit in units}
        self._finished, self.clock = finished, clock
        self._lock = threading.Lock()

    @property
    def states(self) -> list[UnitState]:
        """The state of every unit, in the plan's order."""
        return list(self._states.values())

    def __call__(self, event: Event) -> None:
        """Take an event."""
        with self._lock:
            state = self._states.setdefault(id(event.unit), UnitState(event.unit))
            state.doing, state.waits = None, False
            if isinstance(event, UnitBusy):
                state.doing, state.waits = event.doing, event.waits
            if isinstance(event, UnitStarted):
                state.state, state.started = COMPILING, self.clock()
            if not isinstance(event, UnitDone):
                return
            _end(state, event, self.clock())
            ended = self.count(DONE) + self.count(FAILED)
            self._finished(state, ended, len(self._states))

    def doing(self) -> tuple[str, bool]:
        """Return what the first worker does, and whether that is only to be waited for.

        The text says how many others do something else; it is empty where nothing is done.
        """
        with self._lock:
            busy = [
                (state.waits, state.doing or f"compiling {state.unit}")
                for state in self._states.values()
                if state.doing or state.state == COMPILING
            ]
        if not busy:
            return "", False
        waits, first = min(busy, key=itemgetter(0))
        others = {text for _, text in busy} - {first}
        return f"{first}{f', and {len(others)} more' if others else ''}", waits

    def count(self, name: str) -> int:
        """Return how many units are in a state."""
        return sum(state.state == name for state in self._states.values())


def origins(package: Package) -> Iterator[str]:
    """Yield the line before the last: where the units came from."""
    found = package.origins
    if found.stored or found.compiled:
        yield str(found)


def summary(package: Package, seconds: float) -> str:
    """Return the last line of a build: how much it made, in how long."""
    counts = (package.store.fetched, "fetched"), (package.store.pushed, "pushed")
    moved = ", ".join(f"{n} {done}" for n, done in counts if n)
    made = f"{plural(len(package.records), 'executable')}, {bytes_text(package.size)}"
    return f"{made} with the index, in {seconds:.1f} s{moved and f'; store: {moved}'}"


@contextmanager
def tracked(units: Sequence[BuildUnit], say: Say) -> Iterator[Tracker]:
    """Say a line for each finished unit and, in between, what is waited for."""
    said = threading.Event()

    def finished(state: UnitState, ended: int, total: int) -> None:
        say(_line(state, ended, total))
        said.set()

    tracker = Tracker(units, finished)
    ended = threading.Event()
    thread = threading.Thread(target=_remind, args=(tracker, say, said, ended), daemon=True)
    thread.start()
    try:
        yield tracker
    finally:
        ended.set()
        said.set()
        thread.join()


def _remind(tracker: Tracker, say: Say, said: threading.Event, ended: threading.Event) -> None:
    """Say what is waited for where nothing else was said, at longer and longer intervals.

    What nobody is at work for, and that somebody is at last, is said without delay.
    """
    started = spoken = tracker.clock()
    patience, before = FIRST_REMINDER, ""
    while not ended.is_set():
        if said.wait(FIRST_REMINDER):
            said.clear()
            spoken = tracker.clock()
            continue
        doing, waits = tracker.doing()
        awaited = doing if waits else ""
        if awaited == before and tracker.clock() - spoken < patience:
            continue
        if doing:
            say(f"{doing} ({tracker.clock() - started:.0f} s)")
        patience = min(2 * patience, _LAST_REMINDER) if awaited == before else 2 * FIRST_REMINDER
        spoken, before = tracker.clock(), awaited


def _line(state: UnitState, ended: int, total: int) -> str:
    facts = [] if state.size is None else [bytes_text(state.size)]
    facts += [] if state.seconds is None else [f"{state.seconds:.1f} s"]
    facts += ["from the store"] if state.stored else []
    tail = f"  ({', '.join(facts)})" if facts else ""
    return f"[{ended}/{total}] {state.state}: {state.unit}{tail}"


def _end(state: UnitState, event: UnitDone, now: float) -> None:
    state.state = DONE if event.failure is None else FAILED
    state.size = event.record.blob.size if event.record else None
    state.stored = event.stored
    if state.started is not None:
        state.seconds = round(now - state.started, 3)
