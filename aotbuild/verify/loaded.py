"""What the child process loaded, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.target import HOST
from aotbuild.verify.outcome import Status


@dataclass(frozen=True)
class Callee:
    """A loaded executable, as it is called: numpy arrays in and out, PRNG keys as their data.

    `physical` returns the shape and the numpy dtype in which an aval is stored.
    """

    run: Callable[[Iterable[Any]], list[Any]]
    physical: Callable[[Aval], tuple[tuple[int, ...], Any]]


@dataclass(frozen=True)
class Loaded:
    """The result of loading a record: the status and, if it passed, what can be called.

    `no_call` says why it cannot be called here. `refused` means that the record is for another
    host, so it was not loaded.
    """

    status: Status
    reasons: tuple[str, ...] = ()
    callee: Callee | None = None
    platform: str = HOST
    no_call: str | None = None
    refused: bool = False
