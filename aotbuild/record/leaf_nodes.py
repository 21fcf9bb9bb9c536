"""Where the avals of an argument stand in the text of a manifest."""

from __future__ import annotations

from typing import Any

import yaml

from aotbuild.manifest import ArgSpec, DictSpec, LeafSpec, ListSpec, TupleSpec
from aotbuild.manifest.specs import walk_specs


def leaf_nodes(node: Any, spec: ArgSpec) -> list[Any]:
    """Return the YAML node of each leaf, in jax's order; None for what stands elsewhere."""
    if isinstance(spec, LeafSpec):
        return [node]
    match spec:
        case ListSpec(items):
            inner = zip(node.value, items, strict=True)
        case TupleSpec(items):
            inner = zip(_value(node, "tuple").value, items, strict=True)
        case DictSpec(items):
            named = {key.value: value for key, value in _dict(node).value}
            inner = zip((named[key] for key, _ in sorted(items)), _specs(items), strict=True)
        case _:
            return [None] * len([*walk_specs(spec)])
    return [leaf for child, each in inner for leaf in leaf_nodes(child, each)]


def _specs(items: tuple[tuple[str, ArgSpec], ...]) -> list[ArgSpec]:
    found = dict(items)
    return [found[key] for key in sorted(found)]


def _dict(node: Any) -> Any:
    """Return the map of a dict, which may stand under `dict:`."""
    inner = _value(node, "dict") if len(node.value) == 1 else None
    return inner if isinstance(inner, yaml.MappingNode) else node


def _value(node: Any, key: str) -> Any:
    return next((value for name, value in node.value if name.value == key), None)
