"""What a Python object consists of: its kind, its name, and the values inside it.

`format.identity` makes digests of these. Nothing here depends on addresses, hash order, file
names or line numbers. Code of an object's own type runs only where it says how it is pickled
(`__reduce_ex__`, `__getstate__`); no `__eq__`, `__hash__` or `__repr__` is called.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import sys
import types
import weakref
from _thread import RLock, allocate_lock
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from aotbuild.format.foreign_parts import FOREIGN_READERS
from aotbuild.format.values import (
    NotEncodable,
    encode,
    is_cache,
    member_name,
    qualified_name,
    state_names,
    type_name,
)

# (kind, name as JSON, (label, value) of each part). A label is written after the path of the whole.
Parts: TypeAlias = tuple[str, Any, list[tuple[str, Any]]]

# The kind of a value whose parts have no order.
SET = "set"
# How many times a function may have been wrapped, to be found by the name of its wrapper.
_MOST_WRAPPERS = 8
# What a class has besides what its author wrote.
_OF_ANY_CLASS = (
    *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__abstractmethods__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
    *("__conditional_annotations__", "__firstlineno__", "__static_attributes__", "_abc_impl"),
)


def parts_of(value: Any) -> Parts:
    """Return what a value consists of; NotEncodable if that cannot be read.

    It may raise whatever reading an attribute or pickling raises.
    """
    if callable(value) and (name := name_of(value)):
        return "name", name, []
    reader = _BY_TYPE.get(type(value))
    if reader:
        return reader(value)
    for is_kind, read in _BY_KIND:
        if is_kind(value):
            return read(value)
    return _reduced(value)


def title(value: Any) -> str:
    """Return what people call a value: the name of a function, else that of its type."""
    qualname = getattr(value, "__qualname__", None) if callable(value) else None
    if not isinstance(qualname, str):
        return type_name(type(value))
    return f"{getattr(value, '__module__', None) or type(value).__module__}.{qualname}"


def name_of(value: Any) -> str | None:
    """Return the name that leads to a function or type in every process, or None.

    It may be the name of its wrapper, such as `jax.jit`'s, or stand in a package around its module.
    """
    qualname = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(qualname, str) or "<" in qualname:
        return None
    for module in dict.fromkeys(_modules(value)):
        for wrappers in range(_MOST_WRAPPERS):
            try:
                return qualified_name(value, module, ".__wrapped__" * wrappers)
            except NotEncodable:
                continue
    return None


def _modules(value: Any) -> Iterator[str]:
    module = getattr(value, "__module__", None)
    while isinstance(module, str) and module:
        yield module
        module = module.rpartition(".")[0]
    yield type(value).__module__


# --- functions and code ---------------------------------------------------------------------------


def _function(value: types.FunctionType) -> Parts:
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    parts: list[tuple[str, Any]] = [("(code)", value.__code__)]
    parts += [(f"(default {index})", item) for index, item in enumerate(value.__defaults__ or ())]
    parts += [(f"(default {name})", item) for name, item in (value.__kwdefaults__ or {}).items()]
    parts += [(f".{name}", cell) for name, cell in cells]
    parts += [(f"(attribute {k})", v) for k, v in sorted(vars(value).items()) if k[:2] != "__"]
    return "function", f"{value.__module__}:{value.__qualname__}", parts


def _code(value: types.CodeType) -> Parts:
    counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags
    names = value.co_names, value.co_varnames, value.co_cellvars, value.co_freevars
    # `co_code` is neither specialized nor instrumented, however often the function was called.
    code = value.co_code.hex(), value.co_exceptiontable.hex()
    head = [value.co_qualname, *counts, *map(list, names), *code]
    return "code", head, [(f"(constant {i})", item) for i, item in enumerate(value.co_consts)]


def _cell(value: types.CellType) -> Parts:
    try:
        return "cell", None, [("", value.cell_contents)]
    except ValueError:  # a variable that was not assigned yet
        return "cell", "empty", []


def _method(value: types.MethodType) -> Parts:
    return "method", None, [("(function)", value.__func__), ("", value.__self__)]


def _builtin(value: Any) -> Parts:
    owner = value.__self__
    if owner is not None and not isinstance(owner, types.ModuleType):
        return "method", value.__name__, [("", owner)]
    module = value.__module__ or getattr(owner, "__name__", None)
    return "name", f"{module}:{value.__qualname__}", []


def _cached(value: Any) -> Parts:
    parameters = sorted(value.cache_parameters().items())
    return "cached", list(map(list, parameters)), [("", value.__wrapped__)]


def _descriptor(value: Any) -> Parts:
    return "descriptor", value.__name__, [("(class)", value.__objclass__)]


# --- containers ---------------------------------------------------------------------------------


def _items(values: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"[{index}]", value) for index, value in enumerate(values)]


def _pairs(pairs: Iterable[tuple[Any, Any]]) -> tuple[Any, list[tuple[str, Any]]]:
    """Return the keys as JSON and the values; keys that are not plain are parts, too."""
    pairs = list(pairs)
    if all(key is None or type(key) in (bool, int, str) for key, _ in pairs):
        return [key for key, _ in pairs], [(f"[{key!r}]", value) for key, value in pairs]
    keys = [("(key)", key) for key, _ in pairs]
    return len(pairs), [*keys, *(("(value)", value) for _, value in pairs)]


def _mapping(kind: str) -> Callable[[Any], Parts]:
    return lambda value: (kind, *_pairs(value.items()))


def _set(value: Any) -> Parts:
    kind = type(value)
    if kind in (set, frozenset):
        return SET, kind.__name__, _items(value)
    # Not by __reduce__: that lists the elements in the order of their hashes.
    state = _state(getattr(value, "__dict__", None), kind)
    return "object", None, [("(type)", kind), ("", frozenset(value)), *state]


# --- types and objects --------------------------------------------------------------------------


def _type(value: type) -> Parts:
    """Return what a local type consists of: no name leads to it, so its body counts."""
    written = {k: v for k, v in vars(value).items() if k not in _OF_ANY_CLASS}
    slots = types.MemberDescriptorType, types.GetSetDescriptorType
    body = [(f".{k}", v) for k, v in sorted(written.items()) if not isinstance(v, slots)]
    bases = [(f"(base {index})", base) for index, base in enumerate(value.__bases__)]
    return "class", type_name(value), [*bases, *body]


def _dataclass_field(value: Any) -> Parts:
    """Return what a field of a dataclass consists of.

    Its annotation does not count, as no class's do: one made by a library names the types of the
    values that it saw, which are others under a trace.
    """
    names = [name for name in type(value).__slots__ if name not in ("type", "_field_type")]
    kind = getattr(value._field_type, "name", None)
    return "field", kind, [(f".{name}", getattr(value, name)) for name in names]


def _wrapped(value: Any) -> Parts:
    return "wrapped", type_name(type(value)), [("", value.__func__)]


def _property(value: property) -> Parts:
    return "property", None, [(".fget", value.fget), (".fset", value.fset), (".fdel", value.fdel)]


def _plain_object(value: object) -> Parts:
    """Return the variable of a module that holds an `object()`: nothing else tells it from another.

    NotEncodable if no imported module has it.
    """
    for name, module in sorted(sys.modules.items()):
        if isinstance(module, types.ModuleType):
            variables = types.ModuleType.__getattribute__(module, "__dict__")
            for variable, held in [*variables.items()]:
                if held is value:
                    return "name", f"{name}:{variable}", []
    msg = "an object() that no module has in a variable, so nothing tells it from another one"
    raise NotEncodable(msg)


def _dataclass(value: Any) -> Parts:
    names = [name for name in state_names(value) if hasattr(value, name)]
    return "object", None, [("(type)", type(value)), *((f".{n}", getattr(value, n)) for n in names)]


def _reduced(value: Any) -> Parts:
    """Return the parts by which an object is pickled: its type, arguments, state and items."""
    kind = type(value)
    reducer = copyreg.dispatch_table.get(kind)
    try:
        reduced = reducer(value) if reducer else value.__reduce_ex__(4)
    except TypeError as err:
        msg = f"a {type_name(kind)} keeps its state where it cannot be read ({err})"
        raise NotEncodable(msg) from err
    if isinstance(reduced, str):
        return "global", reduced, [("(type)", kind)]
    made, args, state, listed, mapped = (*reduced, None, None, None)[:5]
    if made is copyreg.__newobj__:  # type: ignore[attr-defined]
        made, *args = args
    keys, values = _pairs(mapped or ())
    parts = [("(type)", made), *((f"({index})", item) for index, item in enumerate(args))]
    return "object", keys, [*parts, *_items(listed or ()), *values, *_state(state, kind)]


def _state(state: Any, kind: type) -> list[tuple[str, Any]]:
    """Return the attributes in a pickled state, sorted, without caches."""
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        return _state({**(state[0] or {}), **state[1]}, kind)
    if type(state) is not dict or not all(isinstance(name, str) for name in state):
        return [] if state is None else [("(state)", state)]
    kept = sorted(name for name in state if not is_cache(kind, name, state[name]))
    return [(f".{name}", state[name]) for name in kept]


# --- which is which -----------------------------------------------------------------------------


def _of_type(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_dataclass(value: Any) -> bool:
    kind = type(value)
    names = ("__reduce_ex__", "__reduce__")
    pickled_as_any = all(getattr(kind, name) is getattr(object, name) for name in names)
    return pickled_as_any and hasattr(kind, "__dataclass_fields__")


_PROCESS_ONLY: tuple[type, ...] = (
    *(type(allocate_lock()), RLock),
    *(weakref.ref, weakref.ProxyType, weakref.CallableProxyType),
    *(weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary),
)
_BY_TYPE: dict[type, Callable[[Any], Parts]] = {
    tuple: lambda value: ("tuple", None, _items(value)),
    list: lambda value: ("list", None, _items(value)),
    dict: _mapping("dict"),
    types.MappingProxyType: _mapping("mappingproxy"),
    bytes: lambda value: ("bytes", value.hex(), []),
    complex: lambda value: ("complex", encode(value), []),
    object: _plain_object,
    staticmethod: _wrapped,
    classmethod: _wrapped,
    property: _property,
    types.FunctionType: _function,
    types.CodeType: _code,
    types.CellType: _cell,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin,
    types.MethodWrapperType: _builtin,
    types.WrapperDescriptorType: _descriptor,
    types.MethodDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    type(functools.lru_cache(len)): _cached,
}
_BY_KIND: tuple[tuple[Callable[[Any], bool], Callable[[Any], Parts]], ...] = (
    (_of_type(type), _type),
    (_of_type(enum.Enum), lambda v: ("enum", None, [("(type)", type(v)), ("", member_name(v))])),
    (_of_type(set, frozenset), _set),
    (lambda value: type_name(type(value)) == "dataclasses.Field", _dataclass_field),
    (_of_type(types.ModuleType), lambda value: ("module", value.__name__, [])),
    # Locks and weak references mean nothing in another process.
    (_of_type(*_PROCESS_ONLY), lambda value: ("empty", type_name(type(value)), [])),
    *FOREIGN_READERS,
    (_is_dataclass, _dataclass),
)
