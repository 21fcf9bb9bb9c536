"""Trees from their descriptions: the types of nodes are imported, and their static data decoded."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from aotbuild.frozen import dataclass
from aotbuild.spec.tree import (
    LEAF,
    MARKERS,
    REFERENCES,
    Marker,
    Tree,
    children_of,
    random_order,
    subtree,
)
from aotbuild.spec.values import Decoders, decode

MakeTreedef = Callable[[tuple[type, Any] | None, Sequence[Any]], Any]

# Namedtuples of jax itself, most of them results of jax.numpy.linalg.
_OF_JAX = ("jax:", "jax.")
_STANDARD: dict[str, type] = {"none": type(None), "tuple": tuple, "list": list}
_CONTAINERS = (type(None), tuple, list, dict)
_INSTALL = "Install the package that defines it, in the version of the build."
_REGISTERED = "an importable type that is a registered pytree"


class NotRestored(ValueError):
    """A node cannot be made: its type, what was expected there, what is, and what to do.

    `more` is what else to say about the node.
    """

    def __init__(
        self,
        node: str,
        found: str,
        expected: str = _REGISTERED,
        remedy: str = _INSTALL,
        more: str = "",
    ) -> None:
        self.node = node
        super().__init__(f"a {node}{more}\n  expected {expected}\n  found    {found}\n{remedy}")


@dataclass(frozen=True)
class Maker:
    """How treedefs are made, and what a description may name.

    `import_type` imports `module:qualname` and may raise anything. `nodes` are the types that are
    nodes, as in the runtime's `Trees`. `decoders` decode static data beside plain values and those
    of numpy; None for `identity.NAMED`, which imports nothing.
    """

    make_treedef: MakeTreedef
    import_type: Callable[[Any], Any]
    nodes: Container[str] | None = None
    decoders: Decoders | None = None


def restore(tree: Tree, maker: Maker, inputs: Any = None, returned: Any = None) -> Any:
    """Return the treedef of a description; NotRestored if a node of it cannot be made.

    `inputs` is the treedef of the call's (args, kwargs), for the descriptions of outputs, and
    `returned` that of the tree under `returns:`. LookupError for a node that they do not have.
    """
    if tree == LEAF:
        return maker.make_treedef(None, ())
    if tree[0] == "input":
        return subtree(inputs, tree[1])
    # Before the children: their data may name constants of what this type imports.
    if tree[0] in REFERENCES:
        node_data = _data_at(inputs if tree[0] == "like_input" else returned, tree[1])
    else:
        node_data = _node_data(tree, maker)
    children = [restore(child, maker, inputs, returned) for child in children_of(tree)]
    try:
        return maker.make_treedef(node_data, children)
    except (ValueError, TypeError, RuntimeError) as err:
        raise NotRestored(_name_of(node_data[0]), str(err)) from err


def _node_data(tree: Tree, maker: Maker) -> tuple[type, Any]:
    kind = tree[0]
    if kind in _STANDARD:
        return _STANDARD[kind], None
    if kind == "dict":
        plain = all(type(key) is str for key in tree[1])
        return dict, tree[1] if plain else _static_data(tree[1], maker, kind)
    if kind in MARKERS:
        return Marker, Marker(kind, _static_data(tree[1], maker, kind))
    name = tree[1]
    if maker.nodes is not None:
        if kind == "node" and name not in maker.nodes:
            found = "a type that only jax knows: load the package with it"
            raise NotRestored(name, found)
        if kind == "namedtuple" and name.startswith(_OF_JAX):
            return tuple, None
    found = _type(name, maker)
    if kind == "namedtuple":
        if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
            raise NotRestored(name, f"{found!r}, which is not a namedtuple")
        return found, None
    if found in _CONTAINERS:
        # jax's C++ makes these by rules of their own, and checks neither data nor children: a
        # None with a child, or a dict with other data, ended the process when it was returned.
        found = f"{found.__name__}, a container that no node is written as"
        raise NotRestored(name, found, remedy="Reinstall the wheel, and verify it.")
    return found, _static_data(_in_order(found, tree[2], name), maker, name)


def _type(name: Any, maker: Maker) -> Any:
    # Whoever trusts the executables of a package trusts the modules that it names, too.
    try:
        return maker.import_type(name)
    except (ImportError, AttributeError, ValueError) as err:
        raise NotRestored(name, f"{type(err).__name__}: {err}") from err


def _in_order(kind: Any, data: Any, name: str) -> Any:
    """Return the static data of a node whose children are in the same random order as here."""
    if not (isinstance(data, dict) and "ordered" in data):
        return data
    names, inner = data["ordered"]
    if names != random_order(kind):
        there, here = (", ".join(map(str, each)) for each in (names, random_order(kind)))
        more, remedy = ", whose arrays are in a random order", "Set PYTHONHASHSEED=0, as builds do."
        raise NotRestored(name, here, there, remedy, more)
    return inner


def _static_data(data: Any, maker: Maker, node: str) -> Any:
    """Return the static data of a node that has such an identity."""
    from aotbuild.spec.identity import NAMED

    try:
        return decode(data, {**_others(maker), **(maker.decoders or NAMED)})
    except ValueError as err:
        raise NotRestored(node, str(err)) from err


def _others(maker: Maker) -> Decoders:
    return {
        "numpy": lambda body, _: numpy_value(*body),
        "dtype": lambda body, _: numpy_dtype(body),
        "treedef": lambda body, _: restore(body, maker),
    }


def numpy_dtype(name: str) -> Any:
    """Return a dtype by its name, one of ml_dtypes, too."""
    # Late imports: few trees have such data. ml_dtypes makes its dtypes known to numpy.
    import ml_dtypes  # noqa: F401
    import numpy as np

    return np.dtype(name)


def numpy_value(dtype: str, *rest: Any) -> Any:
    """Return an array or scalar of numpy: see `spec.identity`."""
    import numpy as np

    from aotbuild.spec.aval import long_dtype

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
