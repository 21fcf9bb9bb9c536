"""What a recording says of a call: its arguments, static values, settings and devices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import NamedSharding

from aotbuild.spec.signature import Function
from aotbuild.spec.values import NotEncodable, encode
from aotbuild.spec.wrap import Wrap
from aotbuild.watch import private
from aotbuild.watch.recording import RecordedArgument, RecordedCall, RecordedFunction
from aotbuild.watch.trees import describe_argument

# Options of jax that decide what is traced: dtypes, random bits, precision.
_SETTINGS = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
)
_NO_BINDING = "its arguments do not fit its parameters"


def describe_call(
    recorded: RecordedFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> RecordedCall:
    """Return the signature of a call; what cannot be recorded is named in its problem."""
    key = recorded.key
    names = [*recorded.positional, *recorded.keywords]
    if len(args) > len(recorded.positional) or not kwargs.keys() <= set(names):
        return RecordedCall(key, (), problem=recorded.problem or _NO_BINDING)
    by_name = {**dict(zip(recorded.positional, args, strict=False)), **kwargs}
    given = {name: by_name[name] for name in names if name in by_name}
    wrap = _wrap_of(recorded)
    statics, problem = _statics(recorded, given)
    dynamic = {name: value for name, value in given.items() if name not in recorded.static}
    arguments = tuple(_argument(name, value, wrap) for name, value in dynamic.items())
    leaves = jax.tree.leaves(list(dynamic.values()))
    mesh, explicit = _mesh(leaves)
    return RecordedCall(
        function=key,
        arguments=arguments,
        statics=statics,
        config=_config(),
        mesh=mesh,
        platform=_platform(leaves),
        devices=max([1, *(_device_count(leaf) for leaf in leaves)]),
        problem=problem or explicit,
    )


def _argument(name: str, value: Any, wrap: Wrap | None) -> RecordedArgument:
    try:
        tree, leaves, problem = describe_argument(value, wrap)
    except Exception as err:  # noqa: BLE001 - the user's types may raise anything
        return RecordedArgument(name, None, (), problem=f"{type(err).__name__}: {err}")
    return RecordedArgument(name, tree, leaves, _shardings(value), problem=problem)


def _wrap_of(recorded: RecordedFunction) -> Wrap | None:
    if not recorded.wrap:
        return None
    from aotbuild.runtime.backends.jax.wraps import make_wrap

    function = Function("", recorded.call, (), (), (), (), wrap=recorded.wrap)
    made: Wrap = make_wrap(function)
    return made


def _statics(
    recorded: RecordedFunction, given: Mapping[str, Any]
) -> tuple[tuple[tuple[str, Any], ...], str]:
    """Return the static values, and why one has no form in a manifest."""
    found, problem = [], ""
    for name in sorted(set(recorded.static) & set(given)):
        try:
            found.append((name, json.loads(json.dumps(encode(given[name])))))
        except (NotEncodable, RecursionError, TypeError, ValueError) as err:
            problem = f"its static argument {name} is no value that a manifest can have: {err}"
    return tuple(found), problem


def _config() -> dict[str, Any]:
    """Return the settings that are not as jax has them on its own."""
    values = jax.config.values
    return {
        name: value if isinstance(value := values[name], bool | int | str) else str(value)
        for name in _SETTINGS
        if name in values and values[name] != _DEFAULTS.get(name)
    }


_DEFAULTS: dict[str, Any] = {
    "jax_default_matmul_precision": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_enable_x64": False,
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_threefry_partitionable": True,
}


# --- devices ------------------------------------------------------------------------------------


def _shardings(value: Any) -> tuple[Any, ...]:
    """Return the PartitionSpec of each leaf; empty if all are on one device."""
    leaves = jax.tree.leaves(value)
    specs = tuple(_spec(leaf) for leaf in leaves)
    return specs if any(spec is not None for spec in specs) else ()


def _spec(leaf: Any) -> list[Any] | None:
    sharding = getattr(leaf, "sharding", None)
    if not isinstance(sharding, NamedSharding) or sharding.num_devices == 1:
        return None
    return [list(axis) if isinstance(axis, tuple) else axis for axis in sharding.spec]


def _mesh(leaves: list[Any]) -> tuple[dict[str, int], str]:
    """Return the mesh of the leaves, and why a manifest cannot have it."""
    found: list[dict[str, int]] = []
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)
        if sharding is None or _device_count(leaf) == 1:
            continue
        if not isinstance(sharding, NamedSharding):
            return {}, f"an argument has a {type(sharding).__name__}: use NamedSharding"
        mesh = {str(name): int(size) for name, size in sharding.mesh.shape.items()}
        if mesh not in found:
            found.append(mesh)
    if len(found) > 1:
        return {}, "its arguments are on several meshes: place them on one"
    return (found[0] if found else {}), ""


def _device_count(leaf: Any) -> int:
    sharding = getattr(leaf, "sharding", None)
    return int(sharding.num_devices) if sharding is not None else 1


def _platform(leaves: list[Any]) -> str:
    """Return where the arguments are, or the default platform if none is on a device."""
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)
        if sharding is not None:
            device = next(iter(sharding.device_set))
            return str(device.platform)
    return str(jax.default_backend())


def has_tracers(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call is inside a transformation."""
    leaves, _ = private.flatten((args, dict(kwargs)))
    return any(private.is_placeholder(leaf) for leaf in leaves)
