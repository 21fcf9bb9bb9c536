"""Replacing hoisted constants in a running process: checked first, then switched between calls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.format.aval import Aval
from aotbuild.format.index import Index
from aotbuild.runtime.fitting_weights import fit
from aotbuild.runtime.observers import emit, listeners, log
from aotbuild.runtime.state import LibraryState
from aotbuild.runtime.weights import named_arrays, read_weights


@dataclass(frozen=True)
class ConstantInfo:
    """A hoisted constant of a package.

    Attributes:
        name: Where the code that was built keeps it, as `nets.model.PARAMS.w`; it is
            `unnamed.<digest>` where that is not known.
        aval: Its `shape` and `dtype`; `str()` of it is `f32[8,4]`.
        functions: The names of the functions that use it, sorted.
    """

    name: str
    aval: Aval
    functions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.aval}"


def constants_of(index: Index, functions: Sequence[str]) -> tuple[ConstantInfo, ...]:
    """Return the constants of some functions, sorted by name; reads all of their records."""
    users: dict[tuple[str, Aval], set[str]] = {}
    for function in functions:
        for name, aval in _named(index, function):
            users.setdefault((name, aval), set()).add(function)
    return tuple(
        ConstantInfo(name, aval, tuple(sorted(found)))
        for (name, aval), found in sorted(
            users.items(), key=lambda item: (item[0][0], str(item[0][1]))
        )
    )


def _named(index: Index, function: str) -> Iterator[tuple[str, Aval]]:
    for record in index.records(function):
        for constant in record.calling.constants:
            if constant.name:
                yield constant.name, constant.aval


def swap(state: LibraryState, weights: Any, prefix: str, sha256: str | None) -> int:
    """Replace the constants of a library; return how many. See `Library.swap_constants`."""
    start = perf_counter()
    users: dict[tuple[str, Aval], set[str]] = {}
    for function in state.index.functions():
        for wanted in _named(state.index, function.name):
            users.setdefault(wanted, set()).add(function.name)
    if not users:
        what = "it has no constants that can be replaced"
        msg = f"{state.name}: {what}\nBuild it with constants: hoist."
        raise AotbuildError(msg)
    source, found = _read(weights, prefix, sha256)
    physical = state.backend.executable_loader.physical
    arrays = fit(state.name, source, physical, [*users], found) if weights is not None else {}
    functions = frozenset(name for wanted in arrays for name in users[wanted])
    state.loader.replace_constants(arrays, functions)
    state.backend.forget_calls()
    state.stats.count("swaps")
    _tell(state, source, arrays, perf_counter() - start)
    return len(arrays)


def _read(weights: Any, prefix: str, sha256: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return what names the weights in errors, and their arrays."""
    if weights is None:
        return "the package", {}
    if not isinstance(weights, (str, os.PathLike)):
        if sha256 is not None:
            msg = "swap_constants(sha256=…): expected a file, found a tree, which has no digest"
            raise AotbuildError(msg)
        return "a tree of arrays", named_arrays(weights, prefix)
    place = os.fspath(weights)
    found = read_weights(place, sha256)
    return place, {f"{prefix}.{name}" if prefix else name: found[name] for name in found}


def _tell(state: LibraryState, source: str, arrays: Mapping[Any, Any], seconds: float) -> None:
    size = sum(array.nbytes for array in arrays.values())
    what = f"{state.name}: constants replaced by {source}: {len(arrays)}, {size} bytes"
    log("info", "swapped", what, None, package=state.name, source=source, seconds=seconds)
    if listeners:
        from aotbuild.runtime.events import Swapped

        emit(Swapped(state.name, source, len(arrays), size, seconds))
