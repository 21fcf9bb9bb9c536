"""What people are told of recorded calls that no manifest gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from aotbuild.record.counted import cost, counted
from aotbuild.record.recording import RecordedFunction, Tally


@dataclass(frozen=True)
class LeftOut:
    """A function that no manifest can name, what it costs, and why."""

    function: RecordedFunction
    tally: Tally
    reason: str

    @property
    def place(self) -> str:
        """The file and line that make it."""
        return f"{self.function.file}:{self.function.line}" if self.function.file else ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "call": self.function.call,
            "file": self.function.file,
            "line": self.function.line,
            "reason": self.reason,
            "calls": self.tally.calls,
            "compile_seconds": self.tally.seconds,
        }


def left_out_lines(left_out: Iterable[LeftOut]) -> Iterator[str]:
    """Yield a line for each function, those that cost most first."""
    for each in sorted(left_out, key=lambda item: -item.tally.seconds):
        place = f"{each.place}: " if each.place else ""
        yield f"left out: {place}{each.function.call}: {cost(each.tally)}"
        yield f"  {each.reason}"


def outside_line(count: int, tally: Tally) -> list[str]:
    """Return one line for all operations that ran outside of any jit."""
    if not count:
        return []
    what, them = counted(count, "operation"), "it" if count == 1 else "them"
    return [f"left out: {what} outside of any jit: {cost(tally)}; put {them} into a jit"]
