"""The options of a function that a recording tells: donation, shardings, mesh, settings of jax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotbuild.format.tree import LEAF, Tree, children_of, leaf_count
from aotbuild.manifest.function import Options
from aotbuild.record.recording import RecordedFunction
from aotbuild.record.seen import Seen


class Unsupported(Exception):
    """An option of a call has no form in a manifest; the message says which, and what to do."""


def options_of(function: RecordedFunction, seen: Seen) -> dict[str, Any]:
    """Return the options of an entry besides its arguments, dims and static values."""
    told = dict(function.options)
    unknown = [name for name in told if name not in Options.model_fields]
    if unknown:
        msg = f"the manifest has no option {unknown[0]}"
        raise Unsupported(msg)
    placed = {**(_shardings(seen) if seen.call.mesh else {}), **told.pop("in_shardings", {})}
    found = {
        "wrap": function.wrap,
        "donate": [name for name in function.donate if name in seen.names],
        "mesh": seen.call.mesh,
        "explicit_axes": [*seen.call.explicit_axes],
        "in_shardings": placed if seen.call.mesh else {},
        "config": {**told.pop("config", {}), **seen.call.config},
        "env": seen.call.env,
        **told,
    }
    if not seen.call.mesh:
        found.pop("out_shardings", None)
    return {name: value for name, value in found.items() if value or name == "out_shardings"}


def _shardings(seen: Seen) -> dict[str, Any]:
    """Return the shardings of the arguments that have any."""
    found = {}
    for argument, tree in zip(seen.call.arguments, seen.trees, strict=True):
        sharding = _sharding(tree, argument.shardings, argument.name)
        if sharding is not None:
            found[argument.name] = sharding
    return found


def _sharding(tree: Tree, specs: Sequence[Any], place: str) -> Any:
    """Return a prefix of a tree of shardings; None if all is replicated."""
    split = [spec for spec in specs if spec and any(spec)]
    if not split:
        return None
    if len(split) == len(specs) and all(spec == split[0] for spec in split):
        return split[0]
    if tree == LEAF or tree[0] not in ("dict", "list", "tuple"):
        msg = f"{place}: its leaves have several shardings; name them with in_shardings: {{like:}}"
        raise Unsupported(msg)
    children = children_of(tree)
    keys = tree[1] if tree[0] == "dict" else range(len(children))
    found, first = {}, 0
    for key, child in zip(keys, children, strict=True):
        last = first + leaf_count(child)
        sharding = _sharding(child, specs[first:last], f"{place}[{key!r}]")
        first = last
        if sharding is not None:
            found[key] = sharding
    return found
