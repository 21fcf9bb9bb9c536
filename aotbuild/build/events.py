"""What happens while units are built, for whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aotbuild.build.plan import BuildUnit
from aotbuild.errors import UnitFailure
from aotbuild.spec.function import Function
from aotbuild.spec.record import Record


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
