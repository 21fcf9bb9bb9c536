"""Pytrees as data: the description of a treedef, which two processes can compare.

A description is JSON:

=====================================  =========================================================
`"*"`                                  a leaf
`["none"]`                             None, a tree without leaves
`["tuple", child…]`, `["list", …]`     the containers themselves
`["dict", [key…], child…]`             keys as `values.encode`, in JAX's (sorted) order
`["namedtuple", "module:name", …]`     a subclass of tuple with `_fields`, which are the children
`["node", "module:name", aux, …]`      any other registered type, and its auxiliary data as
                                       `format.identity`; a type that no name leads to is a
                                       fingerprint, here and in a namedtuple
`["static", value]`                    a `Marker`: a static leaf, as `format.identity`
`["shared", position]`                 a `Marker`: the same Variable as the one at that position
`["argument", [index…]]`               a `Marker`, outputs only: that object of the caller
=====================================  =========================================================

In the description of an output (`format.outputs`), a node may get what no data can hold:

==============================================  ================================================
`["input", [index…]]`                           that subtree of `(args, kwargs)`
`["like_input", [index…], child…]`              the type and static data of that node there
==============================================  ================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from aotbuild.format.values import NotEncodable, qualified_name, type_name

if TYPE_CHECKING:
    from aotbuild.format.identity import Identities

Tree = Any
# Static data that the manifest says not to compare: its place as text, the indices that lead to the
# node, and the index in the node's static data, None for all of it.
Ignored: TypeAlias = tuple[str, tuple[int, ...], int | None]
# Static data that is compared with that of a template: the same, and `module:attr` of the template.
Referenced: TypeAlias = tuple[str, tuple[int, ...], int | None, str]
LEAF = "*"
# The number of items before the children, by the kind of a node.
HEADS = {
    "none": 1,
    "tuple": 1,
    "list": 1,
    "dict": 2,
    "namedtuple": 2,
    "node": 3,
    "static": 2,
    "shared": 2,
    "argument": 2,
    "input": 2,
    "like_input": 2,
}
# The kinds that are a `Marker`, and those of output descriptions only.
MARKERS = ("static", "shared", "argument")
REFERENCES = ("input", "like_input")
DEEPEST = 200


class TreeDef(Protocol):
    """The interface of `jax.tree_util.PyTreeDef` that is used."""

    def node_data(self) -> tuple[type, Any] | None: ...
    def children(self) -> list[Any]: ...


class Marker:
    """What stands in a tree for something that is no array; `form` is one of `MARKERS`.

    It is a node without children and its own auxiliary data; see `register_markers`.
    """

    __slots__ = ("form", "value")
    registered = False

    def __init__(self, form: str, value: Any) -> None:
        self.form, self.value = form, value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Marker) or type(self.value) is not type(other.value):
            return False
        same = self.value is other.value or self.value == other.value
        return self.form == other.form and bool(same)

    def __hash__(self) -> int:
        return hash(self.form)

    def __repr__(self) -> str:
        return f"{self.form}({self.value!r})"


class StaticValue:
    """The type of a node that unflattens to the value of a static leaf; results are made with it.

    Its auxiliary data is the leaf's `Marker`.
    """


def register_markers(register: Callable[..., None]) -> None:
    """Make both types nodes, by `jax.tree_util.register_pytree_node`."""
    if not Marker.registered:
        Marker.registered = True
        register(Marker, lambda marker: ((), marker), lambda marker, _: marker)
        register(StaticValue, lambda value: ((), value), lambda marker, _: marker.value)


class TreeRefused(ValueError):
    """A node of a pytree has no description; `path` holds the child indices that lead to it."""

    def __init__(self, path: tuple[int, ...], node: str, reason: str) -> None:
        self.path, self.node, self.reason = path, node, reason
        super().__init__(f"{node} at {list(path)}: {reason}")


def describe(treedef: TreeDef) -> Tree:
    """Return the description of a treedef; TreeRefused if static data in it has no identity."""
    return Describer().describe(treedef)


class Describer:
    """Describes treedefs; static data that several nodes share is read once."""

    def __init__(
        self,
        ignored: Iterable[Ignored] = (),
        references: Iterable[Referenced] = (),
        *,
        local: bool = False,
    ) -> None:
        """Make a describer; `ignored` and `references` are those of a function.

        `local` gives data without an identity one that holds in this process.
        """
        self._ignored = {(path, index) for _, path, index in ignored}
        self._references = {each[1:3]: each for each in references}
        self._local = local
        # What had no other identity than a reference, and is still to be compared.
        self.compared: list[Referenced] = []

    @cached_property
    def _identities(self) -> Identities:
        # A late import: most calls have containers only, and a cold start pays for each import.
        from aotbuild.format.identity import Identities

        return Identities(Describer(local=self._local).describe, local=self._local)

    def describe(self, treedef: TreeDef, path: tuple[int, ...] = ()) -> Tree:
        """Return the description of a treedef; TreeRefused has the path of the node."""
        data = treedef.node_data()
        if data is None:
            return LEAF if _is_leaf(treedef) else ["none"]
        kind, aux = data
        if len(path) > DEEPEST:  # the reader of an index refuses deeper ones
            raise TreeRefused(path, type_name(kind), f"it is nested deeper than {DEEPEST} levels")
        try:
            head = self._head(kind, aux, path, len(treedef.children()))
        except (NotEncodable, TreeRefused, RecursionError) as err:
            raise TreeRefused(path, type_name(kind), str(err)) from err
        children = enumerate(treedef.children())
        return head + [self.describe(child, (*path, index)) for index, child in children]

    def _head(self, kind: type, aux: Any, path: tuple[int, ...], arity: int) -> list[Any]:
        if kind is type(None):
            return ["none"]
        if kind in (tuple, list):
            return [kind.__name__]
        if kind is dict:
            return ["dict", [key if type(key) is str else self._identity(key) for key in aux]]
        if kind is Marker:
            return [aux.form, self._identity(aux.value)]
        if _is_plain_namedtuple(kind, aux, arity):
            return ["namedtuple", self._type(kind)]
        return ["node", self._type(kind), self._static_data(kind, aux, path)]

    def _type(self, kind: type) -> Any:
        """Return `module:name`, or what identifies a type that a function made."""
        try:
            return qualified_name(kind)
        except NotEncodable:
            return self._identity(kind)

    def _static_data(self, kind: type, aux: Any, path: tuple[int, ...]) -> Any:
        if (path, None) in self._ignored:
            return {"ignored": True}
        if type(aux) is not tuple:
            return self._item(aux, path, None)
        found = {"tuple": [self._field(kind, aux, path, index) for index in range(len(aux))]}
        order = random_order(kind)
        return {"ordered": [order, found]} if order else found

    def _field(self, kind: type, aux: Any, path: tuple[int, ...], index: int) -> Any:
        if (path, index) in self._ignored:
            return {"ignored": True}
        try:
            return self._item(aux[index], path, index)
        except NotEncodable as err:
            msg = f"{field_labels(kind, len(aux))[index]}: {err}"
            raise NotEncodable(msg) from err

    def _item(self, value: Any, path: tuple[int, ...], index: int | None) -> Any:
        try:
            return self._identity(value)
        except (NotEncodable, TreeRefused, RecursionError):
            reference = self._references.get((path, index))
            if reference is None:
                raise
            self.compared.append(reference)
            return {"reference": reference[-1]}

    def _identity(self, value: Any) -> Any:
        return self._identities.identity(value)


def _is_plain_namedtuple(kind: type, aux: Any, arity: int) -> bool:
    """Return whether jax takes the fields for the children; another way may be registered."""
    fields = getattr(kind, "_fields", None)
    return issubclass(kind, tuple) and fields is not None and aux is None and arity == len(fields)


def random_order(kind: type) -> list[str]:
    """Return the names of the children if their order depends on PYTHONHASHSEED; else nothing.

    numpyro's distributions are flattened in the order of a set: without the names, a call in
    another process could exchange arrays of the same shape. Tried with numpyro 0.22.
    """
    gather: Any = getattr(kind, "gather_pytree_data_fields", None)
    return [*gather(), *kind.gather_pytree_aux_fields()] if gather else []  # type: ignore[attr-defined]


def field_labels(kind: type, count: int) -> list[str]:
    """Return what each item of a node's static data is called: `.name` if its type tells.

    flax.struct and equinox mark the fields of their dataclasses; equinox puts others before them.
    """
    fields = getattr(kind, "__dataclass_fields__", {}).values()
    names = [f".{field.name}" for field in fields if _is_static(field)]
    names = names if len(names) <= count else []
    return [*(f"<static>[{index}]" for index in range(count - len(names))), *names]


def _is_static(field: Any) -> bool:
    return field.metadata.get("static") is True or field.metadata.get("pytree_node") is False


def subtree(treedef: TreeDef, path: list[int]) -> Any:
    """Return the subtree that child indices lead to."""
    for index in path:
        treedef = treedef.children()[index]
    return treedef


def is_below(path: Sequence[int], root: Sequence[int]) -> bool:
    """Return whether child indices lead to the node at `root`, or below it."""
    return list(path[: len(root)]) == list(root)


def type_words(found: Any) -> str:
    """Return the type in a description as `module.name`, for people."""
    return str(found if isinstance(found, str) else next(iter(found.values()))[0]).replace(":", ".")


def children_of(tree: Tree) -> list[Tree]:
    """Return the children of a described node; leaves and references to subtrees have none."""
    return [] if tree == LEAF else list(tree[HEADS[tree[0]] :])


def _is_leaf(treedef: Any) -> bool:
    return bool(treedef.num_leaves == 1)
