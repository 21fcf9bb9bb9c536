"""Specs and shardings as JSON for the worker protocol; each form carries its name."""

from __future__ import annotations

from typing import Any, NoReturn

from aotbuild.manifest.types import (
    ArgSpec,
    DictSpec,
    LeafSpec,
    LikeSpec,
    ListSpec,
    NoneSpec,
    PartitionSpec,
    Sharding,
    ShardingTree,
    TupleSpec,
)


def spec_to_json(spec: ArgSpec) -> Any:
    """Return JSON that `spec_from_json` reads back to an equal spec."""
    match spec:
        case LeafSpec(shape, dtype, weak_type):
            return {"leaf": [list(shape), dtype, weak_type]}
        case LikeSpec(ref, dims, values):
            return {"like": [ref, list(dims), [list(pair) for pair in values]]}
        case ListSpec(items):
            return {"list": [spec_to_json(item) for item in items]}
        case TupleSpec(items):
            return {"tuple": [spec_to_json(item) for item in items]}
        case DictSpec(items):
            return {"dict": [[key, spec_to_json(item)] for key, item in items]}
        case NoneSpec():
            return {"none": None}


def spec_from_json(data: Any) -> ArgSpec:
    """Return the spec; ValueError for JSON that `spec_to_json` does not write."""
    form, body = _form(data)
    try:
        match form:
            case "leaf":
                shape, dtype, weak_type = body
                return LeafSpec(tuple(shape), dtype, weak_type)
            case "like":
                ref, dims, values = body
                return LikeSpec(ref, tuple(dims), tuple((name, size) for name, size in values))
            case "list":
                return ListSpec(tuple(spec_from_json(item) for item in body))
            case "tuple":
                return TupleSpec(tuple(spec_from_json(item) for item in body))
            case "dict":
                return DictSpec(tuple((key, spec_from_json(item)) for key, item in body))
            case "none":
                return NoneSpec()
    except (TypeError, ValueError):
        return _malformed("a spec", data)
    return _malformed("a spec", data)


def sharding_to_json(sharding: Sharding) -> Any:
    """Return JSON that `sharding_from_json` reads back to an equal sharding."""
    match sharding:
        case None:
            return None
        case PartitionSpec(axes):
            return {"spec": [list(axis) if isinstance(axis, tuple) else axis for axis in axes]}
        case ShardingTree(items):
            return {"tree": [[key, sharding_to_json(item)] for key, item in items]}


def sharding_from_json(data: Any) -> Sharding:
    """Return the sharding; ValueError for JSON that `sharding_to_json` does not write."""
    if data is None:
        return None
    form, body = _form(data)
    try:
        if form == "spec":
            return PartitionSpec(tuple(tuple(a) if isinstance(a, list) else a for a in body))
        if form == "tree":
            return ShardingTree(tuple((key, sharding_from_json(item)) for key, item in body))
    except (TypeError, ValueError):
        return _malformed("a sharding", data)
    return _malformed("a sharding", data)


def _form(data: Any) -> tuple[str, Any]:
    if isinstance(data, dict) and len(data) == 1:
        ((form, body),) = data.items()
        return form, body
    return _malformed("a spec or sharding", data)


def _malformed(what: str, data: Any) -> NoReturn:
    msg = f"not the JSON of {what}: {str(data)[:80]}"
    raise ValueError(msg)
