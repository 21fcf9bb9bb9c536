"""What was found in a source: functions under a jit, as a manifest names them, and the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SourceArgument:
    """An argument that is traced: its spec as the manifest has it, and where that is from."""

    name: str
    spec: str
    origin: str = ""


@dataclass(frozen=True)
class SourceStatic:
    """A static argument: its values as the manifest has them, empty if they are not known."""

    name: str
    values: tuple[Any, ...] = ()
    origin: str = ""


@dataclass(frozen=True)
class SourceFunction:
    """A function that a manifest can name.

    Attributes:
        call: `module:qualname`.
        file: The file as messages show it.
        line: The line of its `def`, or of the assignment that makes it.
        jit: What it is under, as `jax.jit`; empty for a function without a jit.
        args: The arguments by position, in order; None if nothing is known of them.
        kwargs: Those by name.
        static: The static arguments.
        options: What else its jit was told, as the manifest's options of a function.
        notes: What a person has to know to finish its entry.
    """

    call: str
    file: str
    line: int
    jit: str
    args: tuple[SourceArgument, ...] | None = ()
    kwargs: tuple[SourceArgument, ...] = ()
    static: tuple[SourceStatic, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A jit that no manifest can name: where it is, why that is so, and what to do."""

    file: str
    line: int
    what: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}: {self.reason}\n  {self.remedy}"


@dataclass(frozen=True)
class Found:
    """What was found in one module or in several; `plain` are functions without a jit."""

    functions: tuple[SourceFunction, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    plain: tuple[str, ...] = ()
