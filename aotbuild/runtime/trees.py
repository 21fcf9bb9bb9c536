"""Trees: from the description in a record to the treedef that a call's outputs are put into."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.spec.record import Record
from aotbuild.spec.tree import LEAF, Tree, children_of, subtree
from aotbuild.spec.values import decode

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Trees

# Results of jax.numpy.linalg, for the most part.
_OF_JAX = ("jax:", "jax.")
_STANDARD: dict[str, type] = {"none": type(None), "tuple": tuple, "list": list}


def restore_outputs(record: Record, inputs: Any, trees: Trees) -> Any:
    """Return the treedef of a record's outputs; `inputs` is the treedef of the call."""
    treedef, count = restore(record.calling.out_tree, inputs, trees), len(record.calling.outputs)
    if count and treedef.num_leaves != count:
        msg = f"{record}: {count} outputs do not fit {treedef}; rebuild the wheel"
        raise AotbuildError(msg)
    return treedef


def restore(tree: Tree, inputs: Any, trees: Trees) -> Any:
    """Return the treedef of a description; `inputs` is the treedef of the call's (args, kwargs).

    AotbuildError if a type of the tree cannot be imported or is not a pytree.
    """
    if tree == LEAF:
        return trees.make_treedef(None, ())
    kind = tree[0]
    if kind == "input":
        return subtree(inputs, tree[1])
    children = [restore(child, inputs, trees) for child in children_of(tree)]
    return _make(tree, _node_data(tree, trees), children, trees)


def _node_data(tree: Tree, trees: Trees) -> tuple[type, Any]:
    kind = tree[0]
    if kind in _STANDARD:
        return _STANDARD[kind], None
    if kind == "dict":
        return dict, [decode(key) for key in tree[1]]
    if trees.nodes is not None:
        if kind == "node" and tree[1] not in trees.nodes:
            raise _unusable(tree[1], "a type that only jax knows: load the package with it")
        if kind == "namedtuple" and tree[1].startswith(_OF_JAX):
            return tuple, None
    found = _import(tree[1])
    if kind == "namedtuple":
        if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
            raise _unusable(tree[1], f"{found!r}, which is not a namedtuple")
        return found, found
    return found, decode(tree[2])


def _make(tree: Tree, node_data: tuple[type, Any], children: list[Any], trees: Trees) -> Any:
    try:
        return trees.make_treedef(node_data, children)
    except (ValueError, TypeError, RuntimeError) as err:
        raise _unusable(str(tree[1] if len(tree) > 1 else tree[0]), str(err)) from err


def _import(name: str) -> Any:
    """Import `module:qualname`. Who trusts the executables of a package trusts its modules too."""
    module, _, qualname = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as err:
        raise _unusable(name, f"{type(err).__name__}: {err}") from err
    return found


def _unusable(name: str, found: str) -> AotbuildError:
    return AotbuildError(
        f"an output holds a {name}\n  expected an importable type that is a registered pytree\n"
        f"  found    {found}\nInstall the package that defines it, in the version of the build."
    )
