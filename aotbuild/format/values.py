"""Python values as JSON that keeps their types: static arguments and the data inside pytrees.

`1`, `1.0`, `True`, `(1,)` and `[1]` have five different encodings. Scalars, tuples, lists and dicts
can be decoded. Functions, types, enums, dtypes and plain objects are only compared: encoding checks
that their name resolves to the same object. They are never decoded, because that would run code
that a file names.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import json
import math
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from aotbuild.format.canonical import is_utf8

# From the body of an encoding, and the function that decodes what is inside it; by tag.
Decoder: TypeAlias = Callable[[Any, Callable[[Any], Any]], Any]
Decoders: TypeAlias = Mapping[str, Decoder]


class NotEncodable(ValueError):
    """A value has no encoding with the same meaning in another process."""


def encode(value: Any) -> Any:
    """Return JSON that identifies `value` in every process; NotEncodable if there is none."""
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is str:
        if not is_utf8(value):  # no index has such a text
            msg = f"{cut(repr(value), 100)} has half of a character (a lone surrogate)"
            raise NotEncodable(msg)
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    for kind, encoder in _ENCODERS:
        if type(value) is kind:
            return encoder(value)
    return _encode_object(value)


def decode(data: Any, others: Decoders | None = None) -> Any:
    """Return the value of an encoding of scalars, tuples, lists and dicts, or ValueError.

    `others` decode what has another tag.
    """
    try:
        return _decode(data, {**_DECODERS, **others} if others else _DECODERS)
    except (TypeError, AttributeError, LookupError, OverflowError, RecursionError) as err:
        msg = f"not the encoding of a plain value: {type(err).__name__}: {err}"
        raise ValueError(msg) from err


def _decode(data: Any, decoders: Decoders) -> Any:
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [_decode(item, decoders) for item in data]
    if isinstance(data, dict) and len(data) == 1:
        (tag, body), *_ = data.items()
        if tag in decoders:
            return decoders[tag](body, lambda item: _decode(item, decoders))
    msg = f"not the encoding of a plain value: {data!r}"
    raise ValueError(msg)


def is_plain(data: Any) -> bool:
    """Return whether `decode` can restore this encoding."""
    try:
        decode(data)
    except ValueError:
        return False
    return True


def shown(data: Any) -> str:
    """Return an encoding as text: the value as Python writes it, or its name."""
    try:
        return repr(decode(data))
    except ValueError:
        return json.dumps(data, ensure_ascii=False)


def qualified_name(obj: Any, module: str | None = None, below: str = "") -> str:
    """Return `module:qualname` of a function or type; NotEncodable unless that resolves to it.

    `module` is where to look, by default the one that it names itself. `below` is added to the
    qualified name.
    """
    module = module or getattr(obj, "__module__", None)
    qualname = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    is_of_class = isinstance(obj, types.MethodType) and isinstance(obj.__self__, type)
    if is_of_class:  # a class method, which may be inherited
        module, qualname = obj.__self__.__module__, f"{obj.__self__.__qualname__}.{obj.__name__}"
    if not isinstance(module, str) or not isinstance(qualname, str):
        msg = f"a {type(obj).__qualname__} has no module and qualified name"
        raise NotEncodable(msg)
    found = _imported(module)
    for part in f"{qualname}{below}".split("."):
        found = getattr(found, part, None)
    # Reading a class method makes another object each time.
    if found is not obj and not (is_of_class and found == obj):
        msg = f"{module}:{qualname} does not lead back to the object itself"
        raise NotEncodable(msg)
    return f"{module}:{qualname}{below}"


def import_object(name: str) -> Any:
    """Return the object `module:qualname`, imported.

    Raises ValueError for malformed names, and whatever importing its module raises.
    """
    module, parts = _split(name)
    return functools.reduce(getattr, parts, import_module(module))


def find_object(name: str) -> Any:
    """Return the object `module:qualname` of a module that is imported already, or None."""
    module, parts = _split(name)
    try:
        return functools.reduce(getattr, parts, sys.modules.get(module))
    except AttributeError:
        return None


def _split(name: Any) -> tuple[str, list[str]]:
    module, _, qualname = name.partition(":") if isinstance(name, str) else ("", "", "")
    parts = qualname.split(".")
    if not all(part.isidentifier() for part in (*module.split("."), *parts)):
        msg = f"{cut(repr(name), 100)} is not the module:qualname of anything"
        raise ValueError(msg)
    return module, parts


def import_module(name: str) -> Any:
    """Return a module; raises whatever importing it raises.

    ImportError for one that exits, so that a name in a file does not end the program.
    """
    try:
        return importlib.import_module(name)
    except SystemExit as err:
        msg = f"importing {name} raised SystemExit: {err}"
        raise ImportError(msg, name=name) from err


def type_name(kind: type) -> str:
    """Return `module.qualname` of a type, for people."""
    return f"{kind.__module__}.{kind.__qualname__}"


def member_name(value: enum.Enum) -> Any:
    """Return what tells a member from others: its own name, or the value of one without."""
    name = value._name_  # whatever the type says that `name` is
    return name if name in type(value).__members__ else value._value_


def state_names(value: Any) -> list[str]:
    """Return the names of an object's attributes, in slots or not, without caches.

    Of a dataclass only the fields count, first, unless its `==` is another than theirs.
    """
    kind, fields = type(value), list[str]()
    if hasattr(kind, "__dataclass_fields__"):
        import dataclasses

        fields = [field.name for field in dataclasses.fields(value)]
        if getattr(getattr(kind, "__dataclass_params__", None), "eq", True):
            return fields
    slots = [slot for base in kind.__mro__ for slot in slots_of(base)]
    others = sorted({*slots, *getattr(value, "__dict__", {})}.difference(fields))
    return fields + [n for n in others if not is_cache(kind, n, getattr(value, n, None))]


def is_cache(kind: type, name: str, value: Any) -> bool:
    """Return whether an attribute only keeps what was computed.

    That is a hash, a cached property, or an `_…_cache` that is None in the class until it is
    needed, as that of a unit of astropy.
    """
    if name.startswith("_") and name.rstrip("_").endswith("_hash"):
        return isinstance(value, int | None)
    found = [base.__dict__[name] for base in kind.__mro__ if name in base.__dict__]
    if name.startswith("_") and name.endswith("_cache") and found and found[0] is None:
        return True
    return type(next(iter(found), None)).__name__ == "cached_property"


def _imported(module: str) -> Any:
    """Return a module; whether it was imported before must not decide what a value is."""
    if module not in sys.modules:
        try:
            importlib.import_module(module)
        except Exception:  # noqa: BLE001 (an object may name any module as its own)
            return None
    return sys.modules.get(module)


def _encode_set(value: set[Any] | frozenset[Any]) -> Any:
    return {"set": sorted((encode(item) for item in value), key=repr)}


def _encode_object(value: Any) -> Any:
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return {"name": qualified_name(value)}
    if callable(value) and hasattr(value, "__name__"):  # a ufunc of jax has no __qualname__
        with contextlib.suppress(NotEncodable):
            return {"name": qualified_name(value)}
    if isinstance(value, enum.Enum):
        return {"enum": [qualified_name(type(value)), encode(member_name(value))]}
    if is_of_numpy(value, "dtype"):
        return {"dtype": str(value)}
    if reason := _of_numpy(value):
        raise NotEncodable(reason)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"object": [qualified_name(type(value)), [encode(item) for item in value]]}
    if isinstance(value, tuple | list | dict | set | frozenset | str | bytes | int | float):
        msg = f"a {type(value).__qualname__} (a subclass of a builtin) has no encoding"
        raise NotEncodable(msg)
    return {"object": [qualified_name(type(value)), _encode_state(value)]}


def _of_numpy(value: Any) -> str | None:
    """Return why a value of numpy has no encoding, and what has; None for other values."""
    if is_of_numpy(value, "generic"):
        kind = type(value.item()).__name__
        return f"a numpy.{type(value).__name__} has no encoding; {kind}(…) of it does"
    if is_of_numpy(value, "ndarray"):
        return "a numpy array is no static value; declare it among the arrays"
    return None


def _encode_state(value: Any) -> Any:
    """Return the state of a Python object: its attributes by name."""
    kind, names = type(value), state_names(value)
    pickled = any("__reduce__" in base.__dict__ for base in kind.__mro__[:-1])
    if pickled or _hides_state(value) or not (names or hasattr(value, "__dict__")):
        msg = f"a {kind.__module__}.{kind.__qualname__} keeps its state where it cannot be read"
        raise NotEncodable(msg)
    return [[name, encode(getattr(value, name))] for name in names if hasattr(value, name)]


def _hides_state(value: Any) -> bool:
    """Return whether an object has state in C beside its attributes, as `threading.local` has."""
    own: Any = type(value)
    if own.__getstate__ is not object.__getstate__:
        return False
    try:
        object.__reduce_ex__(value, 4)
    except TypeError:
        return True
    return False


def slots_of(kind: type) -> list[str]:
    """Return the attributes that a class itself keeps in slots."""
    slots = kind.__dict__.get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    own = f"_{kind.__name__.lstrip('_')}"  # Python mangles private names
    names = [own + name if name[:2] == "__" and name[-2:] != "__" else name for name in names]
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def is_of_numpy(value: Any, *names: str) -> bool:
    """Return whether this is an instance of one of some types of numpy, without importing it."""
    kinds = type(value).__mro__
    return any(kind.__name__ in names and kind.__module__ == "numpy" for kind in kinds)


_ENCODERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (tuple, lambda value: {"tuple": [encode(item) for item in value]}),
    (list, lambda value: [encode(item) for item in value]),
    (dict, lambda value: {"dict": [[encode(key), encode(item)] for key, item in value.items()]}),
    (set, _encode_set),
    (frozenset, _encode_set),
    (bytes, lambda value: {"bytes": value.hex()}),
    (complex, lambda value: {"complex": [encode(value.real), encode(value.imag)]}),
)
_DECODERS: Decoders = {
    "float": lambda body, _: float(body),
    "tuple": lambda body, again: tuple(again(item) for item in body),
    "dict": lambda body, again: {again(key): again(item) for key, item in body},
    "bytes": lambda body, _: bytes.fromhex(body),
    "complex": lambda body, again: complex(again(body[0]), again(body[1])),
}


def cut(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters, ending with `…` if it was cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
