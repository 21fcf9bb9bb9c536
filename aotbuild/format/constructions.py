"""Constructions: how static data of which only a digest is known is made again, as JSON.

Where the identity of static data (`format.identity`) cannot be decoded, a recorded tree has
`{"made": [python, identity, construction]}` in its place, with the version of Python that made the
digests in the identity. A construction is plain data, containers and what has a name as
`values.encode` has them, data of numpy and treedefs as in `format.identity`, and these forms:

==========================================================  ====================================
`{"name": module:attr.attr}`                                what importing finds there
`{"array": [dtype, shape, bytes]}`                          a jax array, as one of numpy is written
`{"set": [type, [item…]]}`                                  a set or frozenset
`{"namedtuple": [type, [item…]]}`                           a namedtuple
`{"partial": [function, tuple, dict]}`                      a `functools.partial`
`{"method": [function, object]}`                            a bound method
`{"function": [owner, qualname, number, defaults, keyword   a function that `owner` makes: its
defaults, [[variable, value]…]]}`                           code, and what it closes over
`{"call": [type, [[field, value]…]]}`                       a dataclass, by calling its type
`{"state": [type, [[attribute, value]…]]}`                  another object, as pickle makes it
==========================================================  ====================================

Whoever makes it compares the digest of the result, so a wrong construction cannot pass.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from aotbuild.format.code_parts import name_of
from aotbuild.format.foreign_parts import array_data, is_numpy, is_treedef
from aotbuild.format.identity import numpy_identity
from aotbuild.format.inner_code import owner_of
from aotbuild.format.parts import title
from aotbuild.format.values import (
    NotEncodable,
    encode,
    field_names,
    is_cache,
    slots_of,
)

MADE = "made"
_PLAIN = (type(None), bool, int, str, float)
_DEEPEST = 32
_MOST_VALUES = 10_000
# Larger arrays belong into a module, or among the arguments.
_MOST_BYTES = 1 << 16
_OWN_PICKLING = ("__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__")
_OWN_STATE = ("__getstate__", "__setstate__")


class Constructions:
    """Finds the constructions of the values in one tree."""

    def __init__(
        self,
        describe: Callable[[Any], Any],
        global_name: Callable[[Any], str | None],
        *,
        with_main: bool = False,
    ) -> None:
        """Make one; `describe` describes a treedef.

        `global_name` returns `module:attr` of a global that is a value, or None. `with_main` is
        whether another process can import the module of the program itself.
        """
        self._describe, self._global_name, self._with_main = describe, global_name, with_main
        self._open: set[int] = set()
        self._count = 0

    def of(self, value: Any) -> Any:
        """Return the construction of a value; NotEncodable says which part of it has none."""
        if type(value) in _PLAIN:
            return encode(value)
        self._count = self._count + 1 if self._open else 1
        if len(self._open) >= _DEEPEST or self._count > _MOST_VALUES:
            msg = f"{title(value)} is nested too deep or is too large"
            raise NotEncodable(msg)
        if id(value) in self._open:
            msg = f"{title(value)} leads back to itself"
            raise NotEncodable(msg)
        self._open.add(id(value))
        try:
            return self._named(value) or self._read(value)
        finally:
            self._open.discard(id(value))

    def _named(self, value: Any) -> Any:
        if type(value) in (tuple, list, dict) or is_treedef(value):
            return None
        if isinstance(value, enum.Enum):
            self._check_main(type(value).__module__, title(type(value)))
            return encode(value)
        name = (callable(value) and name_of(value)) or self._global_name(value)
        if name:
            self._check_main(name.partition(":")[0], name)
        return {"name": name} if name else None

    def _check_main(self, module: str, name: str) -> None:
        if module == "__main__" and not self._with_main:
            msg = f"{name} is in the program itself; move it into a module that can be imported"
            raise NotEncodable(msg)

    def _read(self, value: Any) -> Any:
        reader = _READERS.get(type(value))
        if reader:
            return reader(self, value)
        if is_treedef(value):
            return {"treedef": self._describe(value)}
        if is_numpy(value):
            return numpy_identity(value, _MOST_BYTES) or _no_construction(value)
        if (array := array_data(value)) is not None:
            found = numpy_identity(array, _MOST_BYTES)
            return {"array": found["numpy"]} if found else _no_construction(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"namedtuple": [self.of(type(value)), [self.of(item) for item in value]]}
        if _is_called_with_fields(value):
            return {"call": [self.of(type(value)), self._pairs(_given(value))]}
        if _has_plain_state(value):
            return {"state": [self.of(type(value)), self._pairs(_attributes(value))]}
        return self._encoded(value)

    def _encoded(self, value: Any) -> Any:
        with suppress(NotEncodable):
            found = encode(value)
            if isinstance(found, dict) and found.keys() <= {"dtype", "bytes", "complex"}:
                return found
        return _no_construction(value)

    def _pairs(self, items: Iterator[tuple[str, Any]]) -> list[Any]:
        return [[name, self.of(value)] for name, value in items]

    def _items(self, value: Any) -> Any:
        found = [self.of(item) for item in value]
        return {"tuple": found} if type(value) is tuple else found

    def _dict(self, value: dict[Any, Any]) -> Any:
        return {"dict": [[self.of(key), self.of(item)] for key, item in value.items()]}

    def _set(self, value: Any) -> Any:
        return {"set": [type(value).__name__, sorted(map(self.of, value), key=repr)]}

    def _partial(self, value: functools.partial[Any]) -> Any:
        if value.__dict__:
            return _no_construction(value)
        return {"partial": [self.of(value.func), self.of(value.args), self.of(value.keywords)]}

    def _method(self, value: types.MethodType) -> Any:
        return {"method": [self.of(value.__func__), self.of(value.__self__)]}

    def _function(self, value: types.FunctionType) -> Any:
        owner, number = owner_of(value, with_main=self._with_main)
        pairs = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        cells = [[name, *self._contents(cell)] for name, cell in pairs]
        defaults = self.of(value.__defaults__), self.of(value.__kwdefaults__)
        return {"function": [owner, value.__code__.co_qualname, number, *defaults, cells]}

    def _contents(self, cell: Any) -> list[Any]:
        try:
            contents = cell.cell_contents
        except ValueError:  # a variable that was not assigned yet
            return []
        return [self.of(contents)]


def _no_construction(value: Any) -> Any:
    msg = f"nothing says how to make a {title(value)}"
    raise NotEncodable(msg)


_READERS: dict[type, Callable[[Constructions, Any], Any]] = {
    tuple: Constructions._items,
    list: Constructions._items,
    dict: Constructions._dict,
    set: Constructions._set,
    frozenset: Constructions._set,
    functools.partial: Constructions._partial,
    types.MethodType: Constructions._method,
    types.FunctionType: Constructions._function,
}


def without_constructions(found: Any) -> Any:
    """Return a recorded tree as `format.tree` describes it in any process: identities alone."""
    if isinstance(found, dict):
        if MADE in found and len(found) == 1:
            return found[MADE][1]
        return {key: without_constructions(value) for key, value in found.items()}
    return [*map(without_constructions, found)] if isinstance(found, list) else found


# --- objects ------------------------------------------------------------------------------------


def _is_called_with_fields(value: Any) -> bool:
    """Return whether a value is a dataclass whose type takes its fields, as dataclasses make it."""
    kind = type(value)
    if not hasattr(kind, "__dataclass_fields__"):
        return False
    try:
        parameters = {*inspect.signature(kind).parameters}
    except (TypeError, ValueError):
        return False
    return parameters == {field.name for field in dataclasses.fields(kind) if field.init}


def _given(value: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(value):
        found = getattr(value, field.name, field.default)
        if field.init and found is not field.default:
            yield field.name, found


def _has_plain_state(value: Any) -> bool:
    """Return whether pickle makes a value of its attributes alone."""
    kind = type(value)
    is_builtin = any(base.__module__ == "builtins" for base in kind.__mro__[:-1])
    if is_builtin or not hasattr(value, "__dict__"):
        return False
    if any(_defines(kind, name) for name in (*_OWN_PICKLING, *_OWN_STATE)):
        return False
    try:
        object.__reduce_ex__(value, 4)
    except TypeError:  # it has state in C
        return False
    is_dataclass = hasattr(kind, "__dataclass_fields__")
    return not (is_dataclass and {*vars(value)} - {*field_names(value)})


def _defines(kind: type, name: str) -> bool:
    return any(name in base.__dict__ for base in kind.__mro__[:-1])


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object; a hash that it keeps is not that of another process."""
    kind = type(value)
    slots = (name for base in kind.__mro__ for name in slots_of(base))
    for name in sorted({*slots, *vars(value)}):
        if hasattr(value, name):
            found = getattr(value, name)
            if not is_cache(kind, name, found):
                yield name, found
            elif name.endswith("_hash"):
                yield name, None
