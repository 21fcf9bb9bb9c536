"""Argument specs: their forms, how they are read from YAML nodes, and how dims are bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import Discriminator

from aotbuild.manifest.names import reference_problem
from aotbuild.manifest.nodes import ListNode, MapNode, Mark, Node, ScalarNode, describe
from aotbuild.spec.aval import long_dtype, parse_spec
from aotbuild.spec.words import did_you_mean, quote


@dataclass(frozen=True)
class LeafSpec:
    """One array: sizes or dim names, and the full dtype name."""

    shape: tuple[int | str, ...]
    dtype: str
    weak_type: bool = False
    form: Literal["leaf"] = field(default="leaf", repr=False)


@dataclass(frozen=True)
class LikeSpec:
    """The tree of avals that ``module:attr`` is, or returns for the values of these dims."""

    ref: str
    dims: tuple[str, ...] = ()
    values: tuple[tuple[str, int | str], ...] = ()
    form: Literal["like"] = field(default="like", repr=False)


@dataclass(frozen=True)
class ListSpec:
    """A list pytree."""

    items: tuple[ArgSpec, ...]
    form: Literal["list"] = field(default="list", repr=False)


@dataclass(frozen=True)
class TupleSpec:
    """A tuple pytree."""

    items: tuple[ArgSpec, ...]
    form: Literal["tuple"] = field(default="tuple", repr=False)


@dataclass(frozen=True)
class DictSpec:
    """A dict pytree with text keys, in the order of the manifest."""

    items: tuple[tuple[str, ArgSpec], ...]
    form: Literal["dict"] = field(default="dict", repr=False)


@dataclass(frozen=True)
class NoneSpec:
    """``None``: a subtree without leaves."""

    form: Literal["none"] = field(default="none", repr=False)


ArgSpec: TypeAlias = Annotated[
    LeafSpec | LikeSpec | ListSpec | TupleSpec | DictSpec | NoneSpec, Discriminator("form")
]


def bind_dims(spec: ArgSpec, row: Mapping[str, int | str]) -> ArgSpec:
    """Return the spec with the dims of a row put in; `LikeSpec` gets them as `values`.

    Names that the row lacks stay names.
    """
    match spec:
        case LeafSpec(shape):
            sizes = tuple(row.get(d, d) if isinstance(d, str) else d for d in shape)
            return replace(spec, shape=sizes)
        case LikeSpec(_, dims):
            return replace(spec, values=tuple((name, row[name]) for name in dims if name in row))
        case ListSpec(items) | TupleSpec(items):
            return replace(spec, items=tuple(bind_dims(item, row) for item in items))
        case DictSpec(items):
            return DictSpec(tuple((key, bind_dims(item, row)) for key, item in items))
        case NoneSpec():
            return spec


LONG_KEYS = ("shape", "dtype", "weak_type")
LIKE_KEYS = ("like", "dims")
_RESERVED = ("shape", "dtype", "like", "dict", "tuple")
_LONGEST = 200

Report = Callable[[Mark, tuple[object, ...], str], None]
Steps = tuple[object, ...]


@dataclass
class SpecReader:
    """Reads the specs of one function; `known` is None where the dims are unknown."""

    report: Report
    known: tuple[str, ...] | None
    used: set[str] = field(default_factory=set)

    def read(self, node: Node, steps: Steps) -> ArgSpec:
        """Return the spec in a node; a problem leaves a `NoneSpec` in its place."""
        if isinstance(node, ListNode):
            return ListSpec(self._items(node, steps))
        if isinstance(node, MapNode):
            return self._map(node, steps)
        if node.value is None:
            return NoneSpec()
        if isinstance(node.value, str):
            return self._text(node.mark, node.value, steps)
        found = f"found {describe(node)}"
        return self._refuse(node.mark, steps, f"expected a spec such as 'f32[8,128]', {found}")

    def _refuse(self, mark: Mark, steps: Steps, message: str) -> NoneSpec:
        self.report(mark, steps, message)
        return NoneSpec()

    def _items(self, node: ListNode, steps: Steps) -> tuple[ArgSpec, ...]:
        return tuple(self.read(item, (*steps, i)) for i, item in enumerate(node.items))

    def _text(self, mark: Mark, text: str, steps: Steps) -> ArgSpec:
        if len(text) > _LONGEST:
            return self._refuse(mark, steps, f"a spec of {len(text)} characters; too long")
        try:
            shape, dtype, weak = parse_spec(text)
        except ValueError as err:
            return self._refuse(mark, steps, str(err))
        self._check_dims(mark, steps, (dim for dim in shape if isinstance(dim, str)))
        return LeafSpec(shape, dtype, weak)

    def _check_dims(self, mark: Mark, steps: Steps, dims: Iterable[str]) -> None:
        for dim in dims:
            self.used.add(dim)
            if self.known is not None and dim not in self.known:
                hint = did_you_mean(dim, self.known) or f"; {self._declared()}"
                self.report(mark, steps, f"unknown dim {quote(dim)}{hint}")

    def _declared(self) -> str:
        return f"known: {', '.join(self.known)}" if self.known else "declare it under dims:"

    def _map(self, node: MapNode, steps: Steps) -> ArgSpec:
        keys = node.keys()
        if keys == ("dict",):
            return self._dict(node.entries[0][1], (*steps, "dict"))
        if keys == ("tuple",):
            return self._tuple(node.entries[0][1], (*steps, "tuple"))
        if "like" in keys:
            return self._like(node, steps)
        if "shape" in keys or "dtype" in keys:
            return self._long(node, steps)
        if "dict" in keys or "tuple" in keys:
            return self._refuse(node.mark, steps, _ambiguous(keys))
        return self._dict(node, steps)

    def _dict(self, node: Node, steps: Steps) -> ArgSpec:
        if not isinstance(node, MapNode):
            return self._refuse(
                node.mark, steps, f"expected a map of specs, found {describe(node)}"
            )
        items = []
        for key, value in node.entries:
            if not isinstance(key.value, str):
                message = f"the key of a dict pytree is text, found {describe(key)}; quote it"
                self.report(key.mark, steps, message)
            items.append((str(key.value), self.read(value, (*steps, key.value))))
        return DictSpec(tuple(items))

    def _tuple(self, node: Node, steps: Steps) -> ArgSpec:
        if not isinstance(node, ListNode):
            found = describe(node)
            return self._refuse(node.mark, steps, f"expected a list of specs, found {found}")
        return TupleSpec(self._items(node, steps))

    def _unknown_keys(self, node: MapNode, steps: Steps, known: tuple[str, ...]) -> bool:
        """Report the keys that a form does not have; return whether there were any."""
        unknown = [key for key, _ in node.entries if key.value not in known]
        for key in unknown:
            hint = did_you_mean(key.value, known) or f"; {_wrap(node.keys())}"
            message = f"unknown key {quote(key.value)} beside {known[0]!r}{hint}"
            self.report(key.mark, steps, message)
        return bool(unknown)

    def _like(self, node: MapNode, steps: Steps) -> ArgSpec:
        if self._unknown_keys(node, steps, LIKE_KEYS):
            return NoneSpec()
        ref, dims = (node.entry(key) for key in LIKE_KEYS)
        text = ref[1] if ref else node
        message = reference_problem(text.value if isinstance(text, ScalarNode) else None)
        if message:
            return self._refuse(text.mark, (*steps, "like"), f"{message}, found {describe(text)}")
        found = self._like_dims(dims[1], (*steps, "dims")) if dims else ()
        return LikeSpec(str(text.value) if isinstance(text, ScalarNode) else "", found)

    def _like_dims(self, node: Node, steps: Steps) -> tuple[str, ...]:
        items = node.items if isinstance(node, ListNode) else ()
        dims = [str(n.value) for n in items if isinstance(n, ScalarNode) and _is_text(n)]
        if not isinstance(node, ListNode) or len(dims) != len(items):
            self.report(node.mark, steps, "expected a list of dim names, such as [batch]")
            return ()
        if len(set(dims)) != len(dims):
            self.report(node.mark, steps, "a dim is listed twice")
        self._check_dims(node.mark, steps, dims)
        return tuple(dims)

    def _long(self, node: MapNode, steps: Steps) -> ArgSpec:
        if self._unknown_keys(node, steps, LONG_KEYS):
            return NoneSpec()
        values = {str(key.value): value for key, value in node.entries}
        missing = [key for key in ("shape", "dtype") if key not in values]
        if missing:
            message = f"the key {missing[0]!r} is missing; {_wrap(node.keys())}"
            return self._refuse(node.mark, steps, message)
        shape = self._shape(values["shape"], (*steps, "shape"))
        dtype = self._dtype(values["dtype"], (*steps, "dtype"))
        return LeafSpec(shape, dtype, self._weak(values.get("weak_type"), dtype, steps))

    def _shape(self, node: Node, steps: Steps) -> tuple[int | str, ...]:
        if not isinstance(node, ListNode):
            message = f"expected a list of sizes and dim names, found {describe(node)}"
            self.report(node.mark, steps, message)
            return ()
        return tuple(self._size(item, (*steps, i)) for i, item in enumerate(node.items))

    def _size(self, node: Node, steps: Steps) -> int | str:
        value = node.value if isinstance(node, ScalarNode) else None
        if isinstance(value, str) and value.isidentifier():
            self._check_dims(node.mark, steps, [value])
            return value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
        message = f"expected a size or the name of a dim, found {describe(node)}"
        self.report(node.mark, steps, message)
        return 0

    def _dtype(self, node: Node, steps: Steps) -> str:
        text = node.value if isinstance(node, ScalarNode) else None
        if not isinstance(text, str) or len(text) > _LONGEST:
            self.report(node.mark, steps, f"expected the name of a dtype, found {describe(node)}")
            return "float32"
        try:
            return long_dtype(text)
        except ValueError as err:
            self.report(node.mark, steps, str(err))
            return "float32"

    def _weak(self, node: Node | None, dtype: str, steps: Steps) -> bool:
        if node is None:
            return False
        weak = node.value if isinstance(node, ScalarNode) else None
        if not isinstance(weak, bool):
            message = f"expected true or false, found {describe(node)}"
            self.report(node.mark, (*steps, "weak_type"), message)
            return False
        if weak and dtype.startswith(("key<", "bool")):
            self.report(node.mark, (*steps, "weak_type"), f"dtype {dtype} has no weak type")
        return weak


def _is_text(node: ScalarNode) -> bool:
    return isinstance(node.value, str) and node.value.isidentifier()


def _wrap(keys: Iterable[object]) -> str:
    taken = " and ".join(repr(key) for key in keys if key in _RESERVED)
    return f"a dict pytree with {taken} as keys is written {{dict: {{…}}}}"


def _ambiguous(keys: Iterable[object]) -> str:
    taken = " and ".join(repr(key) for key in keys if key in ("dict", "tuple"))
    return f"{taken} must be the only key; a dict pytree with such keys is written {{dict: {{…}}}}"
