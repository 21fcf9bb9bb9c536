"""Trees: from a bound call to leaves and a signature, and back from leaves to the output tree.

A typed PRNG key is one leaf here, of dtype `key<fry>`. Executables take its uint32 data, which the
backend unwraps (`physical_shape` in `runtime.backends.jax.private`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, InvalidArgument, SignatureMismatch
from aotbuild.runtime.binding import REMEDY, Bound, Call
from aotbuild.spec.aval import NotAnArray, long_dtype
from aotbuild.spec.record import Record, Returned
from aotbuild.spec.signature import Signature
from aotbuild.spec.tree import (
    LEAF,
    MARKERS,
    REFERENCES,
    Describer,
    Marker,
    StaticValue,
    Tree,
    TreeRefused,
    children_of,
    random_order,
    subtree,
)
from aotbuild.spec.values import Decoders, decode

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Backend, Trees

MakeTreedef = Callable[[tuple[type, Any] | None, Sequence[Any]], Any]

# Namedtuples of jax itself, most of them results of jax.numpy.linalg.
_OF_JAX = ("jax:", "jax.")
_STANDARD: dict[str, type] = {"none": type(None), "tuple": tuple, "list": list}


def flatten(bound: Bound, backend: Backend) -> Call:
    """Flatten a bound call into leaves, a treedef and its signature.

    InvalidArgument for a leaf that is not an array, SignatureMismatch for a tree without identity.
    """
    function = bound.function
    try:
        leaves, treedef = backend.trees.flatten((bound.args, bound.kwargs))
    except ValueError as err:
        expected, remedy = "pytrees", "Use dict keys of one type that can be sorted."
        raise InvalidArgument(function.name, "(all)", expected, str(err), remedy) from err
    avals = []
    for index, leaf in enumerate(leaves):
        try:
            avals.append(backend.aval_of(leaf))
        except NotAnArray as err:
            raise InvalidArgument(
                function.name,
                leaf_paths(bound, backend.trees)[index],
                "an array, a number or a bool",
                str(err),
                backend.remedy(leaf),
            ) from err
    describer = Describer(function.ignored, function.aliases, function.references)
    try:
        tree = describer.describe(treedef)
    except TreeRefused as err:
        summary = "an argument's tree cannot be compared with the compiled ones"
        raise SignatureMismatch(function.name, summary, [str(err)], REMEDY) from err
    signature = Signature(tree, tuple(avals), bound.statics)
    return Call(bound, leaves, treedef, signature, tuple(describer.compared))


def leaf_paths(bound: Bound, trees: Trees) -> list[str]:
    """Return the path of each leaf of a bound call, as `params['w'][0]`."""
    return ["".join(steps) for steps in leaf_steps(bound, trees)]


def leaf_steps(bound: Bound, trees: Trees) -> list[tuple[str, ...]]:
    """Return the path of each leaf of a bound call in steps, as `("params", "['w']", "[0]")`."""
    paths, dynamic = trees.paths((bound.args, bound.kwargs)), bound.function.dynamic
    return [
        (str(dynamic[entry.idx] if group.idx == 0 else entry.key), *map(str, rest))
        for group, entry, *rest in paths
    ]


# --- outputs ------------------------------------------------------------------------------------


def restore_outputs(record: Record, inputs: Any, trees: Trees) -> Any:
    """Return the treedef of a record's outputs; `inputs` is the treedef of the call."""
    calling = record.calling
    returned = _returned_tree(calling.returned, trees) if calling.returned else None
    treedef = restore(calling.out_tree, inputs, trees, returned)
    count = len(calling.outputs)
    if count and treedef.num_leaves != count:
        msg = f"{record}: {count} outputs do not fit {treedef}; rebuild the wheel"
        raise AotbuildError(msg)
    return treedef


def _returned_tree(returned: Returned, trees: Trees) -> Any:
    # A late import, here and in `differences`: few functions need such trees.
    from aotbuild.runtime.templates import returned_tree

    return returned_tree(returned, trees)


def differences(call: Call, record: Record, trees: Trees) -> list[str]:
    """Return how a call's static data differs from that of a record's templates, in lines."""
    if not call.compared:
        return []
    from aotbuild.runtime import templates

    return templates.differences(call, record, trees)


def with_static_values(treedef: Any, make_treedef: MakeTreedef) -> Any:
    """Return the treedef of outputs so that unflattening it gives static leaves their values."""
    data = treedef.node_data() if Marker.registered else None
    if data is None:
        return treedef
    if data[0] is Marker:
        return make_treedef((StaticValue, data[1]), ()) if data[1].form == "static" else treedef
    children = treedef.children()
    made = [with_static_values(child, make_treedef) for child in children]
    is_same = all(old is new for old, new in zip(children, made, strict=True))
    return treedef if is_same else make_treedef(data, made)


def restore(tree: Tree, inputs: Any, trees: Trees, returned: Any = None) -> Any:
    """Return the treedef of a description; `inputs` is the treedef of the call's (args, kwargs).

    `returned` is that of the tree that the manifest names under `returns:`.
    AotbuildError if a type in the tree cannot be imported or is not a pytree.
    """
    if tree == LEAF:
        return trees.make_treedef(None, ())
    if tree[0] == "input":
        return subtree(inputs, tree[1])
    # Before the children: their data may name constants of what this type imports.
    if tree[0] in REFERENCES:
        node_data = _data_at(inputs if tree[0] == "like_input" else returned, tree[1])
    else:
        node_data = _node_data(tree, trees)
    children = [restore(child, inputs, trees, returned) for child in children_of(tree)]
    try:
        return trees.make_treedef(node_data, children)
    except (ValueError, TypeError, RuntimeError) as err:
        raise _unusable(_name_of(node_data[0]), str(err)) from err


def _node_data(tree: Tree, trees: Trees) -> tuple[type, Any]:
    kind = tree[0]
    if kind in _STANDARD:
        return _STANDARD[kind], None
    if kind == "dict":
        plain = all(type(key) is str for key in tree[1])
        return dict, tree[1] if plain else _static_data(tree[1], trees, kind)
    if kind in MARKERS:
        return Marker, Marker(kind, _static_data(tree[1], trees, kind))
    name = tree[1]
    if trees.nodes is not None:
        if kind == "node" and name not in trees.nodes:
            raise _unusable(name, "a type that only jax knows: load the package with it")
        if kind == "namedtuple" and name.startswith(_OF_JAX):
            return tuple, None
    found = _import(name)
    if kind == "namedtuple":
        if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
            raise _unusable(name, f"{found!r}, which is not a namedtuple")
        return found, None
    return found, _static_data(_in_order(found, tree[2], name), trees, name)


def _in_order(kind: Any, data: Any, name: str) -> Any:
    """Return the static data of a node whose children are in the same random order as here."""
    if not (isinstance(data, dict) and "ordered" in data):
        return data
    names, inner = data["ordered"]
    if names != random_order(kind):
        there, here = (", ".join(map(str, each)) for each in (names, random_order(kind)))
        msg = (
            f"an output holds a {name}, whose arrays are in a random order\n"
            f"  expected {there}\n  found    {here}\nSet PYTHONHASHSEED=0, as builds do."
        )
        raise AotbuildError(msg)
    return inner


def _static_data(data: Any, trees: Trees, node: str) -> Any:
    """Return the static data of a node that has such an identity; nothing is imported for it."""
    from aotbuild.spec.identity import NAMED

    others: Decoders = {
        "numpy": lambda body, _: _numpy_value(*body),
        "dtype": lambda body, _: _numpy_dtype(body),
        "treedef": lambda body, _: restore(body, None, trees),
    }
    try:
        return decode(data, {**others, **NAMED})
    except ValueError as err:
        raise _unusable(node, str(err)) from err


def _numpy_dtype(name: str) -> Any:
    # Late imports: few trees have such data. ml_dtypes makes its dtypes known to numpy.
    import ml_dtypes  # noqa: F401
    import numpy as np

    return np.dtype(name)


def _numpy_value(dtype: str, *rest: Any) -> Any:
    import numpy as np

    array = np.frombuffer(bytes.fromhex(rest[-1]), _numpy_dtype(long_dtype(dtype)))
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
        msg = f"an output refers to a node at {path}, which is not in {treedef}; rebuild the wheel"
        raise AotbuildError(msg)
    return data


def _import(name: str) -> Any:
    from aotbuild.runtime.imports import import_named  # most calls import nothing

    # Whoever trusts the executables of a package trusts the modules that it names, too.
    try:
        return import_named(name)
    except (ImportError, AttributeError, ValueError) as err:
        raise _unusable(name, f"{type(err).__name__}: {err}") from err


def _unusable(name: str, found: str) -> AotbuildError:
    return AotbuildError(
        f"an output holds a {name}\n  expected an importable type that is a registered pytree\n"
        f"  found    {found}\nInstall the package that defines it, in the version of the build."
    )
