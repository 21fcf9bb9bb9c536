"""Shardings that a jit is given in the source: PartitionSpecs, as far as they are literal."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from aotbuild.record.source import ModuleSource
from aotbuild.record.source_avals import TODO

_SPEC = ("PartitionSpec", "P")
_NOT_LITERAL = "not a literal PartitionSpec"


def sharding_options(
    module: ModuleSource, options: dict[str, ast.expr], traced: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return `mesh`, `in_shardings` and `out_shardings` of a manifest, and notes.

    `traced` are the arguments by position that are not static, in order.
    """
    found: dict[str, Any] = {}
    notes = []
    for option in ("in_shardings", "out_shardings"):
        node = options.get(option)
        if node is None:
            continue
        try:
            read = _sharding(module, node)
        except ValueError as err:
            notes.append(f"its {option} are {err}; write them under {option}:, and a mesh:")
            continue
        value = read if option == "out_shardings" else _by_name(read, traced)
        if value not in (None, {}):
            found[option] = value
    return ({"mesh": _mesh(module, found), **found} if found else {}), notes


def _sharding(module: ModuleSource, node: ast.AST | None) -> Any:
    """Return None, a list of axes, or a map of shardings; ValueError for anything else."""
    node = module.follow(node)
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.Tuple | ast.List):
        return {place: _sharding(module, item) for place, item in enumerate(node.elts)}
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        values = [_sharding(module, value) for value in node.values]
        return dict(zip(keys, values, strict=True))
    if isinstance(node, ast.Call):
        last = module.dotted(node.func).rpartition(".")[2]
        if last in _SPEC:
            return [_axis(module, axis) for axis in node.args]
        if last == "NamedSharding" and len(node.args) > 1:
            return _sharding(module, node.args[1])
    raise ValueError(_NOT_LITERAL)


def _axis(module: ModuleSource, node: ast.expr) -> Any:
    found = module.literal(node)
    axes = found if isinstance(found, tuple) else (found,)
    if not all(axis is None or isinstance(axis, str) for axis in axes):
        raise ValueError(_NOT_LITERAL)
    return [*found] if isinstance(found, tuple) else found


def _by_name(read: Any, traced: Sequence[str]) -> dict[str, Any]:
    """Return the shardings by argument: one stands for all of them."""
    if isinstance(read, dict) and all(isinstance(key, int) for key in read):
        given = {traced[place]: each for place, each in read.items() if place < len(traced)}
    else:
        given = dict.fromkeys(traced, read)
    return {name: each for name, each in given.items() if each is not None}


# --- the mesh -------------------------------------------------------------------------------------


def _mesh(module: ModuleSource, found: dict[str, Any]) -> dict[str, Any] | str:
    """Return the axes: those of the one mesh that the module makes, else those that are used."""
    used = list(dict.fromkeys(axis for value in found.values() for axis in _axes(value)))
    meshes = [mesh for value in module.assigned.values() if (mesh := _made_mesh(module, value))]
    fitting = [mesh for mesh in meshes if {*used} <= {*mesh}]
    if len(fitting) == 1:
        return fitting[0]
    # A PartitionSpec without axes needs a mesh, too.
    return dict.fromkeys(used, TODO) or TODO


def _axes(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _axes(each)


def _made_mesh(module: ModuleSource, node: ast.expr) -> dict[str, Any]:
    """Return the mesh of `jax.make_mesh((2, 4), ("data", "model"))` or `Mesh(devices, names)`."""
    if not isinstance(node, ast.Call):
        return {}
    last = module.dotted(node.func).rpartition(".")[2]
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    names = node.args[1] if len(node.args) > 1 else named.get("axis_names")
    shape = node.args[0] if node.args else named.get("axis_shapes")
    if last not in ("make_mesh", "Mesh", "AbstractMesh"):
        return {}
    try:
        axes = module.literal(names)
        sizes = module.literal(shape) if last != "Mesh" else None
    except ValueError:
        return {}
    axes = (axes,) if isinstance(axes, str) else axes
    if not isinstance(axes, tuple | list) or not all(isinstance(a, str) for a in axes):
        return {}
    if not isinstance(sizes, tuple | list) or len(sizes) != len(axes):
        sizes = [TODO] * len(axes)
    return dict(zip(axes, sizes, strict=True))
