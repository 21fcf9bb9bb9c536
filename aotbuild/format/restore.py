"""Trees from their descriptions: the types of nodes are imported, and their static data decoded."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.format.tree import (
    HEADS,
    LEAF,
    MARKERS,
    REFERENCES,
    Marker,
    Tree,
    children_of,
    random_order,
    subtree,
)
from aotbuild.format.values import Decoders, cut, decode

MakeTreedef = Callable[[tuple[type, Any] | None, Sequence[Any]], Any]

# Namedtuples of jax itself, most of them results of jax.numpy.linalg.
_OF_JAX = ("jax:", "jax.")
_STANDARD: dict[str, type] = {"none": type(None), "tuple": tuple, "list": list}
_CONTAINERS = (type(None), tuple, list, dict)
_INSTALL = "Install the package that defines it, in the version of the build."
_REGISTERED = "an importable type that is a registered pytree"
_LONGEST = 200


class NotRestored(ValueError):
    """A node cannot be made here: its type, what was expected there, what is, and what to do.

    `more` is what else to say about the node. `at` are the JSON indices that lead to it.
    """

    at: tuple[int, ...] = ()

    def __init__(
        self,
        node: str,
        found: str,
        expected: str = _REGISTERED,
        remedy: str = _INSTALL,
        more: str = "",
    ) -> None:
        self.node, self.found, self.expected = cut(node, _LONGEST), cut(found, _LONGEST), expected
        text = f"expected {expected}\n  found    {self.found}"
        super().__init__(f"a {self.node}{more}\n  {text}\n{remedy}")


class Impossible(NotRestored):
    """An invalid tree description: no treedef has such a node."""


@dataclass(frozen=True)
class Maker:
    """How treedefs are made, and what a description may name.

    `import_type` imports `module:qualname` and may raise anything. `nodes` are the types that are
    nodes, as in the runtime's `Trees`.
    """

    make_treedef: MakeTreedef
    import_type: Callable[[Any], Any]
    nodes: Container[str] | None = None


def restore(tree: Tree, maker: Maker, inputs: Any = None, at: tuple[int, ...] = ()) -> Any:
    """Return the treedef of a description; NotRestored if a node of it cannot be made.

    `inputs` is the treedef of the call's (args, kwargs), for the descriptions of outputs;
    LookupError for a node that it does not have. `at` are the JSON indices that lead to the
    description.
    """
    if tree == LEAF:
        return maker.make_treedef(None, ())
    if tree[0] == "input":
        return subtree(inputs, tree[1])
    try:
        # Before the children: their data may name constants of what this type imports.
        is_reference = tree[0] in REFERENCES
        node_data = _data_at(inputs, tree[1]) if is_reference else _node_data(tree, maker)
        _check_count(tree, *node_data)
    except NotRestored as err:
        err.at = err.at or at
        raise
    except (LookupError, AotbuildError):
        raise
    except Exception as err:  # types of nodes, and of keys, run code of their own
        raise _failed(err, tree, at) from err
    head = HEADS[tree[0]]
    children = [
        restore(child, maker, inputs, (*at, head + index))
        for index, child in enumerate(children_of(tree))
    ]
    try:
        return maker.make_treedef(node_data, children)
    except Exception as err:  # jaxlib raises several, and calls code of registered namedtuples
        raise _failed(err, tree, at) from err


def _failed(error: Exception, tree: Tree, at: tuple[int, ...]) -> NotRestored:
    name = tree[1] if tree[0] in ("node", "namedtuple") else tree[0]
    failed = NotRestored(str(name), f"{type(error).__name__}: {error}")
    failed.at = at
    return failed


def _check_count(tree: Tree, kind: type, data: Any) -> None:
    """Raise Impossible unless a node of this type can have the children of a description.

    jax's C++ believes what it is given: a dict of more children than keys ended the process.
    """
    count = expected = len(children_of(tree))
    if kind is dict:
        expected = len(data)
    elif kind is type(None):
        expected = 0
    if count != expected:
        raise Impossible(_name_of(kind), f"{count}", f"{expected} children")
    if tree[0] == "namedtuple" and kind is not tuple and count != len(kind._fields):  # type: ignore[attr-defined]
        raise NotRestored(_name_of(kind), f"{kind._fields}", f"{count} fields")  # type: ignore[attr-defined]


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def _node_data(tree: Tree, maker: Maker) -> tuple[type, Any]:
    kind = tree[0]
    if kind in _STANDARD:
        return _STANDARD[kind], None
    if kind == "dict":
        plain = all(type(key) is str for key in tree[1])
        return dict, tree[1] if plain else _sortable(_static_data(tree[1], maker, kind))
    if kind in MARKERS:
        return Marker, Marker(kind, _static_data(tree[1], maker, kind))
    name = tree[1]
    if maker.nodes is not None and kind == "node" and name not in maker.nodes:
        remedy = 'Load the package with arrays="jax": its results are of that type.'
        raise NotRestored(name, "a type that only jax knows", remedy=remedy)
    if maker.nodes is not None and kind == "namedtuple" and name.startswith(_OF_JAX):
        return tuple, None
    made_of = _type(kind, name, maker)
    if kind == "namedtuple":
        return made_of, None
    return made_of, _static_data(_in_order(made_of, tree[2], name), maker, name)


def _sortable(keys: list[Any]) -> list[Any]:
    """Return the keys of a dict; Impossible unless jax could have sorted them."""
    try:
        if len(set(keys)) == len(keys) and sorted(keys) == keys:
            return keys
        found = f"{keys!r}"
    except Exception as err:  # noqa: BLE001 - keys compare as their types say
        found = f"{type(err).__name__}: {err}"
    raise Impossible(dict.__name__, found, "keys that differ, in order")


def _type(kind: str, name: Any, maker: Maker) -> type:
    """Return the type of a `node` or `namedtuple`."""
    # Whoever trusts the executables of a package trusts the modules that it names, too.
    try:
        found = maker.import_type(name)
    except AotbuildError:  # it may not be imported
        raise
    except Exception as err:  # importing a module may raise anything
        raise NotRestored(name, f"{type(err).__name__}: {err}") from err
    if kind == "namedtuple":
        if not (isinstance(found, type) and _is_namedtuple(found)):
            raise NotRestored(name, f"{found!r}, which is not a namedtuple")
    elif not isinstance(found, type):
        raise NotRestored(name, f"{found!r}, which is not a type")
    elif any(found is each for each in _CONTAINERS):
        # jax's C++ makes containers by rules of their own, and checks neither data nor children: a
        # None with a child, or a dict with other data, ended the process when it was returned.
        raise Impossible(name, f"{found.__name__}, a container", "a type that nodes are of")
    return found


def _in_order(kind: Any, data: Any, name: str) -> Any:
    """Return the static data of a node whose children are in the same random order as here."""
    if not (isinstance(data, dict) and "ordered" in data):
        return data
    try:
        names, inner = data["ordered"]
        names = list(names)
    except (TypeError, ValueError) as err:
        raise Impossible(name, f"{data['ordered']!r}", "the names of its children") from err
    if names != random_order(kind):
        there, here = (", ".join(map(str, each)) for each in (names, random_order(kind)))
        more, remedy = ", whose arrays are in a random order", "Set PYTHONHASHSEED=0, as builds do."
        raise NotRestored(name, here, there, remedy, more)
    return inner


def _static_data(data: Any, maker: Maker, node: str) -> Any:
    """Return the static data of a node that has such an identity."""
    from aotbuild.format.identity import NAMED

    try:
        return decode(data, {**_others(maker), **NAMED})
    except ValueError as err:
        raise NotRestored(node, str(err)) from err


def _others(maker: Maker) -> Decoders:
    return {
        "numpy": lambda body, _: numpy_value(*body),
        "dtype": lambda body, _: numpy_dtype(body),
        "treedef": lambda body, _: restore(body, maker),
    }


def numpy_dtype(name: str) -> Any:
    """Return a dtype by its name, one of ml_dtypes, too; an error as of `decode` if it is none."""
    if not name.isidentifier():
        # numpy parses other texts, and raises SyntaxError for some of them.
        msg = f"{name} is no name of a dtype"
        raise ValueError(msg)
    # Late imports: few trees have such data. ml_dtypes makes its dtypes known to numpy.
    import ml_dtypes  # noqa: F401
    import numpy as np

    return np.dtype(name)


def numpy_value(dtype: str, *rest: Any) -> Any:
    """Return an array or scalar of numpy: see `format.identity`."""
    import numpy as np

    from aotbuild.format.dtypes import long_dtype

    array = np.frombuffer(bytes.fromhex(rest[-1]), numpy_dtype(long_dtype(dtype)))
    return array.reshape(rest[0]).copy() if len(rest) > 1 else array[0]


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _data_at(treedef: Any, path: list[int]) -> tuple[type, Any]:
    """Return the type and static data of the node that child indices lead to."""
    try:
        data: tuple[type, Any] | None = subtree(treedef, path).node_data()
    except (IndexError, AttributeError):
        data = None
    if data is None:
        msg = f"a node at {path}, which is not in {treedef}"
        raise LookupError(msg)
    return data
