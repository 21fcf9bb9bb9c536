"""The events of a build: a unit was started, is worked at, or is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aotbuild.build.plan import BuildUnit
from aotbuild.errors import UnitFailure
from aotbuild.format.record import Record
from aotbuild.format.signature import Function


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

    `waits` says that it is only waited for; an empty text, that this is over.
    """

    unit: BuildUnit
    doing: str
    waits: bool = False


Event = UnitStarted | UnitBusy | UnitDone
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing: the listener of a build that nobody watches."""
    del event
