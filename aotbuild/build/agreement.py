"""Whether all targets of a signature were made from one program: what no single trace can tell.

Several processes trace a signature: one for each CPU level with some versions of jax, for each
platform, for each toolchain. A module that draws random numbers while it is imported gives each of
them other constants. But constants may also differ for a reason, as the last digit of a table that
XLA computed for another CPU level. So where traces differ, each job is traced once more in another
process. What differs from itself there is refused; what does not depends on its target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from aotbuild.build.events import UnitDone
from aotbuild.build.replies import TracedAgain
from aotbuild.build.schedule import Task
from aotbuild.build.sources import place_text
from aotbuild.format.record import Record
from aotbuild.format.trace import CONSTANTS, OPERATIONS, TRACE, difference

_SHOWN = 5
_ADVICE = (
    "One wheel would hold executables that compute different results. The likely cause is a module "
    "that draws random numbers or reads a clock, an id() or a process id while it is imported. "
    "Seed it, load the value from a file, or pass it as an argument."
)
UNDECIDED = (
    "its trace differs from that of another target, and tracing it again gave a third one, on a "
    "machine with another CPU; a build on one machine can tell whether that matters"
)


@dataclass(frozen=True)
class Ran:
    """A task that was run, and its results.

    `machine` is what is known of the one that traced it, and `entries` are the keys of what it made
    or used in the store.
    """

    task: Task
    results: tuple[UnitDone, ...]
    machine: Sequence[Any] = ()
    entries: Set[str] = frozenset()

    @property
    def made(self) -> Iterator[tuple[UnitDone, Record]]:
        """The units that did not fail, with their records."""
        return ((done, done.record) for done in self.results if done.record is not None)


@dataclass(frozen=True)
class Again:
    """Another trace of a job, or why there is none."""

    told: TracedAgain | None = None
    error: str = ""


def differing(ran: Iterable[Ran]) -> list[list[Ran]]:
    """Return the jobs of each signature whose targets were made from different traces."""
    groups: dict[tuple[str, str], list[Ran]] = {}
    for each in ran:
        record = next((record for _, record in each.made), None)
        if record is not None:
            groups.setdefault((record.function, record.signature.key()), []).append(each)
    return [group for group in groups.values() if _differ(group)]


def programs(group: Iterable[Ran]) -> list[list[Any]]:
    """Return what tells the traces of a signature's units, as JSON."""
    made = (pair for each in group for pair in each.made)
    return sorted(
        [str(done.unit), str(done.unit.toolchain), record.provenance.get(TRACE)]
        for done, record in made
    )


def _differ(group: Iterable[Ran]) -> bool:
    records = [record for each in group for _, record in each.made]
    return any(difference(*pair) for pair in combinations(records, 2))


@dataclass(frozen=True)
class Compared:
    """A signature whose jobs were traced again: what differs from itself, and where."""

    group: Sequence[Ran]
    again: Sequence[Again]

    @property
    def changed(self) -> list[tuple[Ran, Again]]:
        """The jobs that gave another program this time, or none."""
        return [pair for pair in self._pairs() if _changed(*pair)]

    @property
    def refused(self) -> list[tuple[Ran, Again]]:
        """Those of them that ran on equal machines both times: nothing explains the difference."""
        return [
            (each, again)
            for each, again in self.changed
            if again.told is None or not each.machine or list(each.machine) == again.told.machine
        ]

    @property
    def message(self) -> str:
        """Why the units of the signature are refused."""
        call = self.group[0].task.job.call
        told = [again.told for again in self.again if again.told is not None]
        return "\n".join(
            [
                f"{call} is traced to different programs in different processes",
                *self._rows(),
                *changed_variables(told),
                _ADVICE,
            ]
        )

    def _pairs(self) -> Iterator[tuple[Ran, Again]]:
        return zip(self.group, self.again, strict=True)

    def _rows(self) -> Iterator[str]:
        """Yield which targets have which program, and what tracing again gave."""
        records = [(done, record) for each in self.group for done, record in each.made]
        several = len({done.unit.toolchain for done, _ in records}) > 1
        targets: dict[str, list[str]] = {}
        for done, record in records:
            trace = str(record.provenance.get(TRACE))
            targets.setdefault(trace, []).append(_target(done, several=several))
        numbers = {trace: number for number, trace in enumerate(targets, 1)}
        found = [difference(a, b) for (_, a), (_, b) in combinations(records, 2)]
        other = f": other {CONSTANTS if CONSTANTS in found else OPERATIONS}"
        for trace, number in numbers.items():
            words = "" if number == 1 else other
            yield f"  program {number}, for {' and '.join(targets[trace])}{words}"
        each, again = self.refused[0]
        done, _ = next(each.made)
        target = f"{_target(done, several=several)}, traced again"
        if again.told is None:
            yield f"  no program for {target}: {again.error}"
        else:
            number = numbers.get(str(again.told.trace), len(numbers) + 1)
            yield f"  program {number}, for {target}{other}"


def changed_variables(told: Sequence[TracedAgain]) -> Iterator[str]:
    """Yield lines on the variables of modules that have other values in another process."""
    found: dict[str, str] = {}
    for one, other in combinations(told, 2):
        for name, (digest, line) in one.variables.items():
            if other.variables.get(name, (digest,))[0] != digest:
                found.setdefault(name, line)
    for name, line in list(found.items())[:_SHOWN]:
        yield f"  {name} differs"
        yield from (f"  {row}" for row in place_text(line).splitlines())
    if len(found) > _SHOWN:
        yield f"  and {len(found) - _SHOWN} more variables"


def _changed(each: Ran, again: Again) -> bool:
    trace = again.told and again.told.trace
    return any(record.provenance.get(TRACE) != trace for _, record in each.made)


def _target(done: UnitDone, *, several: bool) -> str:
    target = str(done.unit.target)
    return f"{target} with jax {done.unit.toolchain.jax}" if several else target
