"""Trace jobs again, in new processes, where the targets of a signature have different programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from aotbuild.build.agreement import (
    UNDECIDED,
    Again,
    Compared,
    Ran,
    differing,
    programs,
)
from aotbuild.build.attempt import Outcome, Request, Tell
from aotbuild.build.events import Listener, UnitBusy, UnitDone
from aotbuild.build.progress import TRACE
from aotbuild.build.replies import Failed, Reply, TracedAgain
from aotbuild.build.requests import Hello
from aotbuild.format.temporary import temporary_folder
from aotbuild.store.entry import Entry
from aotbuild.store.keys import programs_key
from aotbuild.store.layers import Layers

_ENTRY = Entry({"entry": "traced again"}, b"")

Attempt = Callable[[Request, Tell], Outcome]
# Opens new processes for so many jobs.
Open = Callable[[Hello, int], AbstractContextManager[tuple[Attempt, Executor]]]


@dataclass(frozen=True)
class TraceAgain:
    """Traces jobs again with `open`, and asks the store first whether that was done before."""

    open: Open
    hello: Hello
    layers: Layers
    listener: Listener
    timeout: float

    def __call__(self, ran: Iterable[Ran]) -> tuple[list[Compared], list[Ran]]:
        """Return the signatures to refuse, and jobs of which it cannot be told."""
        groups = [group for group in differing(ran) if not self._is_known(group)]
        if not groups:
            return [], []
        refused: list[Compared] = []
        undecided: list[Ran] = []
        for compared in self._compared(groups):
            if compared.refused:
                refused.append(compared)
            elif compared.changed:
                undecided += [each for each, _ in compared.changed]
            else:
                self._keep(compared.group)
        return refused, undecided

    def _compared(self, groups: Sequence[Sequence[Ran]]) -> Iterator[Compared]:
        jobs = [each for group in groups for each in group]
        with temporary_folder() as folder:
            changes = {"again": True, "store": None, "behind": False}
            hello = self.hello.model_copy(update={**changes, "blobs": folder.absolute()})
            with self.open(hello, len(jobs)) as (attempt, threads):
                futures = [threads.submit(self._run, attempt, each) for each in jobs]
                found = iter([future.result() for future in futures])
        for group in groups:
            yield Compared(group, [next(found) for _ in group])

    def _run(self, attempt: Attempt, ran: Ran) -> Again:
        job, unit = ran.task.job, next(done.unit for done, _ in ran.made)
        targets = [str(done.unit.target) for done, _ in ran.made]
        # The first trace has shown that it is pure by itself.
        job = job.only(targets).with_options(purity="skip")
        self.listener(UnitBusy(unit, f"tracing {job.label} again, as its targets differ"))
        again = _traced(attempt, Request(ran.task.settings, job, self.timeout, self.timeout))
        self.listener(UnitBusy(unit, ""))
        return again

    def _is_known(self, group: Sequence[Ran]) -> bool:
        return self.layers.store.uncounted().get(self._key(group)) is not None

    def _keep(self, group: Sequence[Ran]) -> None:
        key = self._key(group)
        self.layers.store.uncounted().put(key, _ENTRY)
        self.layers.uncounted.add(key)

    def _key(self, group: Sequence[Ran]) -> str:
        return programs_key(self.hello.provenance["aotbuild"], programs(group))


def _traced(attempt: Attempt, request: Request) -> Again:
    heard: list[Reply] = []

    def listen(message: Reply, _: float | None = None, /) -> None:
        heard.append(message)

    outcome = attempt(request, listen)
    told = next((m for m in heard if isinstance(m, TracedAgain)), None)
    failed = next((m.error for m in heard if isinstance(m, Failed)), "")
    return Again(told, failed or (outcome.exited.reason if outcome.exited else ""))


def with_verdicts(
    results: Iterable[UnitDone], refused: Iterable[Compared], undecided: Iterable[Ran]
) -> list[UnitDone]:
    """Return results with refused units as failed, and with a note where it cannot be told."""
    # By identity: to Python, units with the static values 1 and True are equal.
    messages = {
        id(done): compared.message
        for compared in refused
        for each in compared.group
        for done, _ in each.made
    }
    noted = {id(done) for each in undecided for done, _ in each.made}
    return [
        done.failed(TRACE, messages[id(done)])
        if id(done) in messages
        else replace(done, notes=(*done.notes, UNDECIDED))
        if id(done) in noted
        else done
        for done in results
    ]
