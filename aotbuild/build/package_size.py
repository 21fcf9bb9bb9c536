"""What makes a package large: its size beside PyPI's limit, and constants in executables."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotbuild.build.events import UnitDone
from aotbuild.build.protocol import Embedded
from aotbuild.format.layout import PYPI_LIMIT

_CHUNK = 1 << 20
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


def size_note(size: int, what: str, remedy: str = "") -> str | None:
    """Return a note about a wheel of that many bytes; None if it is small enough.

    It ends with `remedy`, that of a package.
    """
    if size <= PYPI_LIMIT:
        return None
    return (
        f"{what} has {size / 1e6:.0f} MB; PyPI's default limit for one file is 100 MB. "
        f"`aotbuild split` makes a base wheel and one for each family of targets{remedy}"
    )


def compressed_size(files: Iterable[Path]) -> int:
    """Return the bytes that files take in a wheel; compress them only if that could matter."""
    files = list(files)
    plain = sum(file.stat().st_size for file in files)
    return plain if plain <= PYPI_LIMIT else sum(map(_deflated, files))


def _deflated(file: Path) -> int:
    # Raw deflate at the default level, as zipfile and hatchling do.
    packer, size = zlib.compressobj(wbits=-zlib.MAX_WBITS), 0
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            size += len(packer.compress(chunk))
    return size + len(packer.flush())
