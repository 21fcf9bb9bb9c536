"""Constants of executables: what they add to a package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from aotbuild.build.events import UnitDone
from aotbuild.build.protocol import Embedded

# Of one function in all its executables, in bytes: less is not worth a note.
_MUCH = 1_000_000


@dataclass(frozen=True)
class EmbeddedIn:
    """What the executables of a function embed: how many they are, and the one with the most."""

    function: str
    executables: int
    most: Embedded

    @property
    def size(self) -> int:
        """The bytes of all of them, if each embeds as much."""
        return self.executables * self.most.total


def embedded_in(done: Iterable[UnitDone]) -> tuple[EmbeddedIn, ...]:
    """Return what the executables of each function embed, if they embed anything."""
    found: dict[str, list[Embedded]] = {}
    for result in done:
        if result.embedded is not None:
            found.setdefault(result.unit.name, []).append(result.embedded)
    return tuple(
        EmbeddedIn(name, len(each), max(each, key=lambda embedded: embedded.total))
        for name, each in found.items()
    )


def embedded_notes(found: Iterable[EmbeddedIn]) -> Iterator[str]:
    """Yield a note for each function whose executables embed much."""
    for function in found:
        if function.size <= _MUCH:
            continue
        size = f"{_bytes(function.most.total)}{' in each' if function.executables > 1 else ''}"
        yield (
            f"{function.function}: constants are embedded in {_executables(function)}, {size}; "
            f"{_largest(function)}. `constants: hoist` stores them once, beside the executables"
        )


def size_remedy(found: Sequence[EmbeddedIn]) -> str:
    """Return what makes a package smaller where it has large constants; empty where it has none."""
    much = [function for function in found if function.size > _MUCH]
    if not much:
        return ""
    function = max(much, key=lambda each: each.size)
    return (
        f". {_bytes(sum(each.size for each in much))} are constants that executables embed: "
        f"in {function.function}, {_largest(function)}. `constants: hoist` stores each once"
    )


def _executables(function: EmbeddedIn) -> str:
    return "its executable" if function.executables == 1 else f"{function.executables} executables"


def _largest(function: EmbeddedIn) -> str:
    return f"the largest is {function.most.largest}, {_bytes(function.most.largest_bytes)}"


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{size / 1e3:.0f} kB"
