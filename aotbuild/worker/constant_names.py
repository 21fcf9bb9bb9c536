"""Names of hoisted constants: where the user's code keeps each array, as `nets.linear.PARAMS.w`.

A trace knows the array objects that a function closes over, but not their names. So the variables
of the project's modules, and the closure of the function, are searched for these objects. Reports
show constants by these names.
"""

from __future__ import annotations

import ast
import types
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aotbuild.format.canonical import sha256_hex
from aotbuild.worker import private as jax_private
from aotbuild.worker.purity.snapshot import project_modules
from aotbuild.worker.purity.values import children, instance_dict, is_a

# Limits of the search: values, and how deep they are nested.
_MOST_VALUES = 200_000
_DEEPEST = 24
_UNNAMED_DIGITS = 12


@dataclass(frozen=True, order=True)
class Found:
    """Where an array was found. The least is its name: where a module itself defines it."""

    is_alias: bool
    depth: int
    name: str
    variable: str = field(compare=False)


def names_of(reference: str, function: Any, constants: Sequence[Any]) -> list[str]:
    """Return a name for each constant of a function, whose `module:qualname` is `reference`.

    A constant that the search doesn't find, such as one that was computed while tracing, is
    `unnamed.<digest>`: the same value has the same name. Two constants never share another name.
    """
    arrays = [jax_private.constant_array(value) for value in constants]
    found, kept = _search(reference, function, {_identity(array) for array in arrays})
    names = []
    for array in arrays:
        place = found.get(_identity(array)) or _narrowed(array, kept)
        names.append(place.name if place else _unnamed(array))
    twice = {name for name in names if names.count(name) > 1}
    of_name = {
        name: {_identity(a) for a, n in zip(arrays, names, strict=True) if n == name}
        for name in twice
    }
    return [
        _unnamed(array) if len(of_name.get(name, ())) > 1 else name
        for array, name in zip(arrays, names, strict=True)
    ]


def _identity(array: Any) -> tuple[Any, ...]:
    """Return what tells arrays apart: the object, or for numpy the memory, as views are made."""
    if is_a(array, np.ndarray):
        return (array.__array_interface__["data"][0], array.shape, array.strides, str(array.dtype))
    return (id(array),)


def _unnamed(array: Any) -> str:
    data = np.ascontiguousarray(array)
    digest = sha256_hex(f"{data.dtype}{data.shape}".encode() + data.tobytes())
    return f"unnamed.{digest[:_UNNAMED_DIGITS]}"


def _search(
    reference: str, function: Any, wanted: set[tuple[Any, ...]]
) -> tuple[dict[tuple[Any, ...], Found], dict[Found, Any]]:
    """Return where the wanted arrays are, and all arrays that were met, by place."""
    found: dict[tuple[Any, ...], Found] = {}
    kept: dict[Found, Any] = {}
    # What a module defines comes first: each value is visited once.
    waiting = deque(sorted(_roots(reference, function), key=lambda root: root[0].is_alias))
    seen: dict[int, Any] = {}
    while waiting and len(seen) < _MOST_VALUES:
        place, value = waiting.popleft()
        if is_a(value, (np.ndarray, jax.Array)):
            kept[place] = value
            key = _identity(value)
            if key in wanted and (key not in found or place < found[key]):
                found[key] = place
        elif id(value) not in seen and place.depth < _DEEPEST:
            seen[id(value)] = value
            waiting.extend(_below(place, value))
    return found, kept


def _roots(reference: str, function: Any) -> Iterator[tuple[Found, Any]]:
    module, _, qualname = reference.partition(":")
    for name, found in sorted(project_modules(module).items()):
        aliases = _aliases(str(instance_dict(found).get("__file__") or ""))
        for variable, value in sorted(instance_dict(found).items()):
            if not variable.startswith("__") and not is_a(value, types.ModuleType):
                place = f"{name}.{variable}"
                yield Found(variable in aliases, 0, place, place), value
    place = f"{module}.{qualname}"
    yield Found(True, 0, place, place), function


@cache
def _aliases(path: str) -> frozenset[str]:
    """Return the variables of a module for what has a name elsewhere: `from m import a; b = a`."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(found)


def _below(place: Found, value: Any) -> Iterator[tuple[Found, Any]]:
    try:
        below = list(children(value))
    except Exception:  # noqa: BLE001 - the user's class may raise on any access
        return
    for child in below:
        name = f"{place.name}{_dotted(child.suffix)}"
        yield Found(place.is_alias, place.depth + 1, name, place.variable), child.value


def _dotted(suffix: str) -> str:
    """Return the suffix of an expression as part of a name: `["w"]` and `[0]` are `.w` and `.0`."""
    if not suffix.startswith("["):
        return suffix
    try:
        return f".{ast.literal_eval(suffix[1:-1])}"
    except (SyntaxError, ValueError):
        return f".{suffix[1:-1]}"


def _narrowed(array: Any, kept: dict[Found, Any]) -> Found | None:
    """Return where the one array is that jax narrowed to this one, as float64 to float32."""
    data = np.asarray(array)
    equal: dict[tuple[Any, ...], Found] = {}
    for place, value in kept.items():
        is_wider = is_a(value, np.ndarray) and value.dtype.itemsize == 2 * data.dtype.itemsize
        if not is_wider or value.dtype.kind != data.dtype.kind or value.shape != data.shape:
            continue
        if np.array_equal(value.astype(data.dtype), data):
            key = _identity(value)
            equal[key] = min(place, equal.get(key, place))
    return next(iter(equal.values())) if len(equal) == 1 else None
