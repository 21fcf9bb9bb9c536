"""Which sizes of dims were compiled, and which of them is the smallest that holds a request."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from operator import index
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError
from aotbuild.format.words import did_you_mean
from aotbuild.runtime.signatures import dims_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aotbuild.runtime.state import LibraryState

# Rows that an error lists.
_SHOWN = 12


@dataclass(frozen=True)
class Row:
    """The sizes of one signature's dims, and the number of elements of its arguments."""

    sizes: dict[str, int]
    elements: int


def sizes(state: LibraryState, name: str, dim: str) -> tuple[int, ...]:
    """Return the compiled sizes of a dim, sorted; AotbuildError for a dim that is not there."""
    rows = _rows(state, name)
    _check_dims(name, rows, [dim])
    return tuple(sorted({row.sizes[dim] for row in rows if dim in row.sizes}))


def bucket(state: LibraryState, name: str, wanted: dict[str, int]) -> dict[str, int]:
    """Return the smallest compiled sizes that hold some; AotbuildError if there are none.

    Of several, those of the signature with the fewest elements, as for a call that is padded.
    """
    table: list[tuple[int, ...]] = state.described.get(
        ("table", name, *wanted), lambda: _table(state, name, tuple(wanted))
    )
    _check_sizes(name, wanted)
    sizes = tuple(map(index, wanted.values()))
    found = next((row for row in table if all(map(int.__le__, sizes, row))), None)
    if found is None:
        raise _too_large(name, table, wanted)
    return dict(zip(wanted, found, strict=True))


def _table(state: LibraryState, name: str, dims: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Return the sizes of some dims in each signature that has them, the smallest first."""
    rows = _rows(state, name)
    _check_dims(name, rows, dims)
    having = [row for row in rows if all(dim in row.sizes for dim in dims)]
    order = [(row.elements, tuple(row.sizes[dim] for dim in dims)) for row in having]
    return list(dict.fromkeys(sizes for _, sizes in sorted(order)))


def _rows(state: LibraryState, name: str) -> tuple[Row, ...]:
    """Return the rows of a function, which are read once."""
    made: tuple[Row, ...] = state.described.get(("rows", name), lambda: _read(state, name))
    return made


def _read(state: LibraryState, name: str) -> tuple[Row, ...]:
    state.function(name)
    return tuple(
        Row(
            {dim: size for dim, size in dims_of(record).items() if isinstance(size, int)},
            sum(prod(aval.shape) for aval in record.signature.leaves),
        )
        for record in state.index.first_records(name)
    )


def _check_dims(name: str, rows: tuple[Row, ...], dims: Iterable[str]) -> None:
    known = sorted({dim for row in rows for dim in row.sizes})
    for dim in dims:
        if dim in known:
            continue
        expected = f"one of {', '.join(known)}{did_you_mean(dim, known)}"
        if not known:
            expected = "dims: in the manifest, with a size that is not symbolic"
        remedy = "Name a dim of the manifest. Wheels of older versions have none: build again."
        msg = f"{name}: it has no dim {dim!r}\n  expected {expected}\n{remedy}"
        raise AotbuildError(msg)


def _check_sizes(name: str, wanted: dict[str, int]) -> None:
    if not wanted:
        msg = f"{name}: bucket() needs a dim of the manifest, as bucket({name!r}, batch=3)"
        raise AotbuildError(msg)
    for dim, size in wanted.items():
        if not hasattr(size, "__index__") or index(size) < 0:
            found = f"  expected a whole number of at least 0\n  found    {size!r}"
            msg = f"{name}: bucket({dim}=…)\n{found}\nPass the size that the call has."
            raise AotbuildError(msg)


def _too_large(
    name: str, table: Sequence[tuple[int, ...]], wanted: dict[str, int]
) -> AotbuildError:
    listed = [_text(dict(zip(wanted, sizes, strict=True))) for sizes in sorted(table)]
    more = f" and {len(listed) - _SHOWN} smaller" if len(listed) > _SHOWN else ""
    return AotbuildError(
        f"{name}: no compiled size holds {_text(wanted)}\n"
        f"  compiled {'; '.join(listed[-_SHOWN:])}{more}\n"
        "Split what you pass, or add the size to dims: in the manifest and build again."
    )


def _text(sizes: dict[str, int]) -> str:
    return ", ".join(f"{dim}={size}" for dim, size in sizes.items())
