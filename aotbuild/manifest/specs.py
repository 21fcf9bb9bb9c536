"""Argument specs: their forms, how they are read, and how dims and static values are bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator

from aotbuild.format.aval import parse_spec
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.names import reference_problem
from aotbuild.manifest.nodes import (
    ListNode,
    MapNode,
    Mark,
    Node,
    Report,
    ScalarNode,
    Steps,
    child,
    describe,
)
from aotbuild.manifest.reader import TODO

LIKE_KEYS = ("like", "dims", "static", "like_run")
# Each of these is the only key of its map.
_ALONE = ("dict", "tuple")
RESERVED = ("like", *_ALONE)
_WRAP = "a dict pytree with such keys is written {dict: {…}}"
_LONGEST = 200


@dataclass(frozen=True)
class LeafSpec:
    """One array: sizes or dim names, and the full dtype name."""

    shape: tuple[int | str, ...]
    dtype: str
    weak_type: bool = False
    form: Literal["leaf"] = field(default="leaf", repr=False)


@dataclass(frozen=True)
class LikeSpec:
    """The tree of avals that ``module:attr`` is, or returns for these dims and static arguments.

    `values` has theirs, by name. With `run`, the function is not traced but run.
    """

    ref: str
    dims: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    run: bool = False
    values: tuple[tuple[str, Any], ...] = ()
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
    LeafSpec | LikeSpec | ListSpec | TupleSpec | DictSpec | NoneSpec,
    Discriminator("form"),
]


def bind_values(
    spec: ArgSpec, row: Mapping[str, int | str], statics: Mapping[str, Any] | None = None
) -> ArgSpec:
    """Return the spec with the dims of a row put in; `LikeSpec` gets dims and statics as `values`.

    Names that the row lacks stay names.
    """
    given = {**row, **(statics or {})}
    match spec:
        case LeafSpec():
            return _sized(spec, row)
        case LikeSpec(_, dims, static):
            names = (name for name in (*dims, *static) if name in given)
            return replace(spec, values=tuple((name, given[name]) for name in names))
        case ListSpec(items) | TupleSpec(items):
            return replace(spec, items=tuple(bind_values(item, row, statics) for item in items))
        case DictSpec(items):
            return DictSpec(tuple((key, bind_values(item, row, statics)) for key, item in items))
        case NoneSpec():
            return spec


def _sized(leaf: LeafSpec, row: Mapping[str, int | str]) -> LeafSpec:
    sizes = tuple(row.get(dim, dim) if isinstance(dim, str) else dim for dim in leaf.shape)
    return replace(leaf, shape=sizes)


def imported_names(spec: ArgSpec) -> Iterator[str]:
    """Yield what making the trees in a spec imports, as ``module:name``."""
    for each in _every(spec):
        if isinstance(each, LikeSpec):
            yield each.ref


def _every(spec: ArgSpec) -> Iterator[ArgSpec]:
    """Yield a spec and those inside it, in order."""
    yield spec
    for each in _inside(spec):
        yield from _every(each)


def _inside(spec: ArgSpec) -> Iterable[ArgSpec]:
    if isinstance(spec, ListSpec | TupleSpec):
        return spec.items
    if isinstance(spec, DictSpec):
        return [item for _, item in spec.items]
    return ()


@dataclass
class SpecReader:
    """Reads the specs of one signature.

    `dims` and `statics` are the names that the function declares, None where nobody knows them.
    `is_whole` is False after a spec that has a `TODO`, whose dims are not known.
    """

    report: Report
    dims: tuple[str, ...] | None = None
    statics: tuple[str, ...] | None = None
    used: set[str] = field(default_factory=set)
    is_whole: bool = True

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
        self.is_whole = self.is_whole and text != TODO
        try:
            shape, dtype, weak = parse_spec(text)
        except ValueError as err:
            return self._refuse(mark, steps, str(err))
        self._check_dims(mark, steps, (dim for dim in shape if isinstance(dim, str)))
        return LeafSpec(shape, dtype, weak)

    def _check_dims(self, mark: Mark, steps: Steps, dims: Iterable[str]) -> None:
        for dim in dims:
            self.used.add(dim)
            if self.dims is not None and dim not in self.dims:
                message = f"unknown dim {quote(dim)}{_hint(dim, self.dims, 'dims')}"
                self.report(mark, steps, message)

    def _check_statics(self, mark: Mark, steps: Steps, names: Iterable[str]) -> None:
        for name in names:
            if self.statics is not None and name not in self.statics:
                hint = _hint(name, self.statics, "static")
                self.report(mark, steps, f"unknown static argument {quote(name)}{hint}")

    def _map(self, node: MapNode, steps: Steps) -> ArgSpec:
        keys = node.keys()
        if keys == ("dict",):
            return self._dict(node.entries[0][1], (*steps, "dict"))
        if keys == ("tuple",):
            return self._tuple(node.entries[0][1], (*steps, "tuple"))
        if "like" in keys:
            return self._like(node, steps)
        if any(key in keys for key in _ALONE):
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

    def _like(self, node: MapNode, steps: Steps) -> ArgSpec:
        for key, _ in node.entries:
            if key.value not in LIKE_KEYS:
                hint = did_you_mean(key.value, LIKE_KEYS) or f"; {_WRAP}"
                message = f"unknown key {quote(key.value)} beside 'like'{hint}"
                return self._refuse(key.mark, steps, message)
        text, dims, static, run = (child(node, key) for key in LIKE_KEYS)
        assert text is not None, "a map with the key `like` is read here"
        problem = reference_problem(text.value if isinstance(text, ScalarNode) else None)
        if problem or not isinstance(text, ScalarNode):
            return self._refuse(text.mark, (*steps, "like"), f"{problem}, found {describe(text)}")
        found = self._names(dims, (*steps, "dims"), "dim", "batch")
        given = self._names(static, (*steps, "static"), "static argument", "causal")
        if dims:
            self._check_dims(dims.mark, (*steps, "dims"), found)
        if static:
            self._check_statics(static.mark, (*steps, "static"), given)
        for name in sorted({*found} & {*given}):
            message = f"{quote(name)} is a dim and a static argument; the function gets it by name"
            self.report(node.mark, steps, message)
        return LikeSpec(str(text.value), found, given, self._flag(run, (*steps, "like_run")))

    def _names(self, node: Node | None, steps: Steps, kind: str, example: str) -> tuple[str, ...]:
        if node is None:
            return ()
        items = node.items if isinstance(node, ListNode) else ()
        names = [str(n.value) for n in items if isinstance(n, ScalarNode) and _is_text(n)]
        if not isinstance(node, ListNode) or len(names) != len(items):
            self.report(node.mark, steps, f"expected a list of {kind} names, such as [{example}]")
            return ()
        if len(set(names)) != len(names):
            self.report(node.mark, steps, f"a {kind} is listed twice")
        return tuple(names)

    def _flag(self, node: Node | None, steps: Steps) -> bool:
        value = node.value if isinstance(node, ScalarNode) else None
        if node is not None and not isinstance(value, bool):
            self.report(node.mark, steps, f"expected true or false, found {describe(node)}")
        return value is True


def _hint(name: str, known: tuple[str, ...], option: str) -> str:
    declared = f"known: {', '.join(known)}" if known else f"declare it under {option}:"
    return did_you_mean(name, known) or f"; {declared}"


def _is_text(node: ScalarNode) -> bool:
    return isinstance(node.value, str) and node.value.isidentifier()


def _ambiguous(keys: Iterable[object]) -> str:
    taken = " and ".join(repr(key) for key in keys if key in _ALONE)
    return f"{taken} must be the only key; {_WRAP}"
