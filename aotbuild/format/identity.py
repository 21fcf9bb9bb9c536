"""The identity of static data in trees, as JSON: two processes compare it.

It is what `values.encode` gives, and six forms more:

======================================  ==========================================================
`{"numpy": [dtype, shape, bytes]}`      an array of numpy, at most 256 bytes; the bytes in hex
`{"numpy": [dtype, bytes]}`             a scalar of numpy
`{"treedef": tree}`                     a `PyTreeDef`, as `format.tree` describes it
`{"fingerprint": [name, digest]}`       anything else: the name of its type or function, for people,
                                        and its digest by `Fingerprinter`
`{"ordered": [names, identity]}`        that of a node whose children are in a random order
`{"reference": module:attr}`            that of a node of a template, which calls compare by `==`
                                        (`format.references`)
`{"ignored": true}`                     what the manifest says not to compare (`static_data:`)
======================================  ==========================================================

A list, tuple or dict is taken item by item. The first two forms can be decoded; so can functions,
types, enums, constants and mappings around a dict by name, where their module is imported.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.values import Decoder, NotEncodable, encode, find_object, type_name

_PLAIN = (type(None), bool, int, str, float)
# A part in its whole: `["=", plain value]`, `["#", digest]`, or `["^", distance]` to an outer one.
_Link: TypeAlias = list[Any]
_DIGITS = 32
_DEEPEST_VALUE = 150
_MOST_VALUES = 100_000
# Larger arrays would make the index large: their digest is as good where nothing is decoded.
_MOST_BYTES = 256
# Deeper containers become fingerprints: JSON has a limit for all of a record.
_DEEPEST = 32


class Identities:
    """Makes the identities of static data; what several of them share is read once."""

    def __init__(self, describe: Callable[[Any], Any], *, local: bool) -> None:
        """Make identities; `describe` describes a treedef.

        `local` also identifies what cannot be read, while it is alive in this process.
        """
        self._describe = describe
        self._local = local
        self._fingerprinter: Fingerprinter | None = None

    def identity(self, value: Any, depth: int = 0) -> Any:
        """Return the identity of a value; NotEncodable if it has none."""
        kind, inside = type(value), depth + 1
        if kind in _PLAIN:
            return encode(value)
        if depth < _DEEPEST:
            if kind is tuple:
                return {"tuple": [self.identity(item, inside) for item in value]}
            if kind is list:
                return [self.identity(item, inside) for item in value]
            if kind is dict:
                pairs = value.items()
                return {"dict": [[self.identity(part, inside) for part in pair] for pair in pairs]}
        return self._of_object(value)

    def _of_object(self, value: Any) -> Any:
        try:
            return encode(value)
        except Exception:  # noqa: BLE001 (a property of the object may raise anything)
            return self._readable(value) or self._fingerprint(value)

    def _readable(self, value: Any) -> Any:
        # Late imports, here and below: most calls have no such data.
        from aotbuild.format.foreign_parts import is_numpy, is_treedef

        if is_numpy(value):
            return numpy_identity(value)
        return {"treedef": self._describe(value)} if is_treedef(value) else None

    def _fingerprint(self, value: Any) -> Any:
        from aotbuild.format.parts import title

        self._fingerprinter = self._fingerprinter or Fingerprinter()
        try:
            digest = self._fingerprinter.digest(value)
        except NotEncodable:
            if not self._local:
                raise
            return {"local": [title(value), id(value)]}
        return {"fingerprint": [title(value), digest]}


def is_decodable(data: Any, *nodes: str) -> bool:
    """Return whether the value of an identity can be made from it; see `opaque_part`."""
    return opaque_part(data, *nodes) is None


def opaque_part(data: Any, *nodes: str) -> str | None:
    """Return the name of the first part of an identity that cannot be decoded; None if all can.

    `nodes` are the types of a node and of those around it, as `module:name`. Importing a type also
    imports what it needs of its package, and of those of its base classes: other names may not be
    imported where the value is made.
    """
    if isinstance(data, list):
        return next((found for item in data if (found := opaque_part(item, *nodes))), None)
    if not isinstance(data, dict):
        return None
    ((tag, body),) = data.items()
    if tag in _PLAIN_TAGS:
        return None
    if tag in ("tuple", "dict"):
        return opaque_part(body, *nodes)
    if tag == "ordered":
        return opaque_part(body[1], *nodes)
    if tag == "treedef":
        return _opaque_in_tree(body, nodes)
    return _opaque_name(tag, body, nodes)


def _opaque_name(tag: str, body: Any, nodes: tuple[str, ...]) -> str | None:
    name = body[0] if isinstance(body, list) and body else body
    shown = "a set" if tag == "set" else str(name).replace(":", ".")
    if tag == "dtype":
        return None if name.isidentifier() else shown
    packages = {*_EVERYWHERE, *(package for node in nodes for package in _packages(node))}
    if tag not in NAMED or _package(name) not in packages:
        return shown

    def check(item: Any) -> None:
        if not is_decodable(item, *nodes):
            msg = f"a part of {name} cannot be decoded"
            raise ValueError(msg)

    try:
        NAMED[tag](body, check)
    except (ValueError, TypeError, LookupError, AttributeError):
        return shown
    return None


def _opaque_in_tree(tree: Any, nodes: tuple[str, ...]) -> str | None:
    """Return the same for the static data of all nodes in a treedef."""
    if not isinstance(tree, list):
        return None
    if tree[0] in ("node", "namedtuple") and not isinstance(tree[1], str):
        return opaque_part(tree[1])  # a function made the type
    if tree[0] == "node":
        nodes = (*nodes, tree[1])
        if found := opaque_part(tree[2], *nodes):
            return found
    # Not the keys of a dict, which may be a list, too.
    children = tree[3:] if tree[0] == "node" else tree[2:] if tree[0] == "dict" else tree[1:]
    return next((found for child in children if (found := _opaque_in_tree(child, nodes))), None)


def _packages(node: str) -> set[str]:
    try:
        bases = _imported(node).__mro__
    except (AttributeError, ValueError):
        bases = ()
    return {_package(node), *(_package(base.__module__) for base in bases)}


def _package(name: str) -> str:
    return name.partition(":")[0].partition(".")[0]


# --- what modules that are imported already have ------------------------------------------------


def _imported(name: str) -> Any:
    found = find_object(name)
    if found is None:
        msg = f"{name} is not imported; import it before"
        raise ValueError(msg)
    return found


def _member(body: Any, _: Any) -> Any:
    kind = _imported(body[0])
    if not isinstance(kind, enum.EnumMeta):
        msg = f"{body[0]} is no enum"
        raise ValueError(msg)
    return kind[body[1]]


def _object(body: Any, again: Callable[[Any], Any]) -> Any:
    """Return an object without state that its module has, such as a sentinel; or a mapping."""
    name, state = body
    kind = _imported(name)
    if state:
        (attribute, data), *more = state
        return _no_constant(name) if more else _mapping(kind, attribute, data, again)
    values = vars(sys.modules[name.partition(":")[0]]).values()
    found = {id(value): value for value in values if type(value) is kind}
    return next(iter(found.values())) if len(found) == 1 else _no_constant(name)


def _mapping(kind: Any, attribute: Any, data: Any, again: Callable[[Any], Any]) -> Any:
    """Return a mapping whose only attribute is a dict, as flax's HashableMapping.

    No code of the type runs.
    """
    is_dict = isinstance(data, dict) and "dict" in data and isinstance(attribute, str)
    is_mapping = isinstance(kind, type) and issubclass(kind, Mapping)
    if not (is_dict and is_mapping) or hasattr(kind, "__del__"):
        return _no_constant(f"{kind.__module__}:{kind.__qualname__}")
    made = object.__new__(kind)
    made.__dict__[attribute] = again(data)
    return made


def _no_constant(name: str) -> NoReturn:
    msg = f"a {name} is no constant of its module"
    raise ValueError(msg)


# What decodes names: importing is left to the types of nodes, these only look.
NAMED: dict[str, Decoder] = {
    "name": lambda body, _: _imported(body),
    "enum": _member,
    "object": _object,
}
# What is decoded without names.
_PLAIN_TAGS = ("float", "bytes", "complex", "numpy")
# Packages that are imported wherever an executable is called.
_EVERYWHERE = ("builtins", "jax", "numpy")


def numpy_identity(value: Any) -> Any:
    """Return an array of at most 256 bytes, or a scalar, of a dtype of jax; else None."""
    from aotbuild.format.dtypes import DTYPES

    dtype, is_scalar = str(value.dtype), type_name(type(value)) != "numpy.ndarray"
    is_exact = not is_scalar or type(value) is value.dtype.type
    if dtype not in DTYPES or not is_exact or value.nbytes > _MOST_BYTES:
        return None
    shape = [] if is_scalar else [list(value.shape)]
    return {"numpy": [dtype, *shape, value.tobytes().hex()]}


# --- fingerprints -------------------------------------------------------------------------------


class Fingerprinter:
    """Makes digests of values without an encoding, equal in every process and never decoded.

    A value is hashed with its parts (`format.parts`), and they with theirs. Where a value leads
    back to one that contains it, the distance stands for that. So a digest depends on the value
    alone. Values that several fingerprints share are read once.
    """

    def __init__(self) -> None:
        # By id. A digest of a value that is in a cycle, or leads to one, depends on where the walk
        # entered the cycle, and is not kept.
        self._digests: dict[int, str] = {}
        # Values are kept alive, so that no other gets the same id.
        self._kept: list[Any] = []
        self._open: dict[int, int] = {}
        self._count = 0

    def digest(self, value: Any) -> str:
        """Return the digest of a value: 32 hexadecimal digits; NotEncodable if it has none."""
        try:
            link, _ = self._visit(value)
        except NotEncodable:
            raise
        except RecursionError as err:
            msg = f"a {type_name(type(value))} is nested too deep to compare"
            raise NotEncodable(msg) from err
        except Exception as err:  # user code says how it is pickled
            msg = f"reading a {type_name(type(value))} raised {type(err).__name__}: {err}"
            raise NotEncodable(msg) from err
        finally:
            self._open.clear()
        return str(link[1]) if link[0] == "#" else _digest("plain", link[1], [])

    def _visit(self, value: Any) -> tuple[_Link, bool]:
        """Return the link to a value, and whether it leads to a cycle."""
        kind, key = type(value), id(value)
        if kind in _PLAIN:
            return ["=", encode(value) if kind is float else value], False
        if key in self._open:
            return ["^", len(self._open) - self._open[key]], True
        if key in self._digests:
            return ["#", self._digests[key]], False
        self._count += 1
        if len(self._open) >= _DEEPEST_VALUE or self._count > _MOST_VALUES:
            msg = f"a {type_name(kind)} is nested too deep or is too large to compare"
            raise NotEncodable(msg)
        self._kept.append(value)
        self._open[key] = len(self._open)
        digest, has_cycle = self._read(value)
        del self._open[key]
        if not has_cycle:
            self._digests[key] = digest
        return ["#", digest], has_cycle

    def _read(self, value: Any) -> tuple[str, bool]:
        from aotbuild.format.parts import SET, parts_of  # most data has another identity

        kind, name, parts = parts_of(value)
        links, has_cycle = [], False
        for label, part in parts:
            link, leads_back = self._visit(part)
            links.append((label, link))
            has_cycle |= leads_back
        if kind == SET:
            if has_cycle and len(links) > 1:
                msg = "a set holds values that lead back to it"
                raise NotEncodable(msg)
            links = [("", link) for link in sorted((link for _, link in links), key=repr)]
        return _digest(kind, name, links), has_cycle


def _digest(kind: str, name: Any, links: list[tuple[str, _Link]]) -> str:
    return sha256_hex(canonical_json([kind, name, links]))[:_DIGITS]
