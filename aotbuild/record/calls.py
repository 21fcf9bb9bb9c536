"""What a call log says of a call: its arguments, static values, settings and devices."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding

from aotbuild.format.aval import NotAnArray
from aotbuild.format.canonical import as_utf8, canonical_json, read_canonical
from aotbuild.format.signature import Function
from aotbuild.format.trace import NUMBER_OPTIONS
from aotbuild.format.values import NotEncodable, encode
from aotbuild.format.wrap import FILTER_JIT, NnxJit, Wrap
from aotbuild.record import private
from aotbuild.record.arguments import describe_argument
from aotbuild.record.call_log import ObservedArgument, ObservedCall, ObservedFunction

# Options of jax that decide what is traced, and what they are where nobody sets them.
_SETTINGS: dict[str, Any] = {
    **NUMBER_OPTIONS,
    "jax_enable_x64": False,
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
}
# Environment variables that decide what is traced, by the module that reads them.
_VARIABLES = {"equinox": ("EQX_ON_ERROR",)}
_NO_BINDING = "its arguments do not fit its parameters"


def describe_call(
    observed: ObservedFunction,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    info: Any = None,
) -> ObservedCall:
    """Return the signature of a call; what no manifest can have is named in its problem.

    `info` are the options of the function's jit.
    """
    key = observed.key
    names = [*observed.positional, *observed.keywords]
    if len(args) > len(observed.positional) or not kwargs.keys() <= set(names):
        return ObservedCall(key, (), problem=observed.problem or _NO_BINDING)
    by_name = {**dict(zip(observed.positional, args, strict=False)), **kwargs}
    given = {name: by_name[name] for name in names if name in by_name}
    wrap = _wrap_of(observed)
    static = {name for name, value in given.items() if _is_static(observed, name, value)}
    statics, problem = _statics({name: given[name] for name in sorted(static)})
    dynamic = {name: value for name, value in given.items() if name not in static}
    arguments = tuple(_argument(name, value, wrap) for name, value in dynamic.items())
    leaves = jax.tree.leaves(list(dynamic.values()))
    shardings = [getattr(leaf, "sharding", None) for leaf in leaves]
    mesh, axes, unknown = _mesh([*shardings, *private.shardings_of_jit(info)])
    return ObservedCall(
        function=key,
        arguments=arguments,
        statics=statics,
        config=_config(),
        env=_env(),
        mesh=mesh,
        explicit_axes=axes,
        platform=_platform(leaves),
        problem=problem or unknown or _shared(wrap, dynamic),
    )


def _argument(name: str, value: Any, wrap: Wrap | None) -> ObservedArgument:
    try:
        return ObservedArgument(name, describe_argument(value, wrap), _shardings(value))
    except NotAnArray as err:
        problem = f"a leaf is {err}; jax.jit takes it as a static argument only"
    except Exception as err:  # noqa: BLE001 - the user's types may raise anything
        problem = f"{type(err).__name__}: {err}"
    return ObservedArgument(name, None, problem=problem)


def _wrap_of(observed: ObservedFunction) -> Wrap | None:
    if not observed.wrap:
        return None
    from aotbuild.runtime.jax.wraps import make_wrap

    function = Function("", observed.call, (), (), (), (), wrap=observed.wrap)
    made: Wrap = make_wrap(function)
    return made


def _shared(wrap: Wrap | None, values: Mapping[str, Any]) -> str:
    """Return which arguments have a Variable in common: a manifest describes each by itself."""
    if not isinstance(wrap, NnxJit):
        return ""
    known: dict[int, str] = {}
    for name, value in values.items():
        units, _ = wrap.flatten(value, wrap.is_variable)
        mine = {id(unit) for unit in units if wrap.is_variable(unit)}
        if common := mine & known.keys():
            other = known[min(common)]
            return f"{other} and {name} have a Variable in common: let one argument have both"
        known.update(dict.fromkeys(mine, name))
    return ""


def _is_static(observed: ObservedFunction, name: str, value: Any) -> bool:
    """Return whether an argument is static: equinox's jit traces arrays only."""
    is_plain = observed.wrap == FILTER_JIT and type(value) in (bool, int, float, str)
    return is_plain or name in observed.static


def _statics(given: Mapping[str, Any]) -> tuple[tuple[tuple[str, Any], ...], str]:
    """Return the static values, and why one has no form in a manifest."""
    found, problem = [], ""
    for name, value in given.items():
        try:
            found.append((name, read_canonical(canonical_json(encode(value)))))
        except (NotEncodable, RecursionError, TypeError, ValueError) as err:
            problem = f"its static argument {name} is no value that a manifest can have: {err}"
    return tuple(found), problem


def _env() -> dict[str, str]:
    """Return the variables that libraries in this process read, and are set."""
    return {
        name: as_utf8(os.environ[name])
        for module, names in _VARIABLES.items()
        if module in sys.modules
        for name in names
        if name in os.environ
    }


def _config() -> dict[str, Any]:
    """Return the settings that are not as jax has them on its own."""
    values = jax.config.values
    return {
        name: value if isinstance(value := values[name], bool | int | str) else str(value)
        for name, default in _SETTINGS.items()
        if name in values and values[name] != default
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


def _mesh(shardings: list[Any]) -> tuple[dict[str, int], tuple[str, ...], str]:
    """Return the mesh of the arguments, its explicit axes, and why a manifest has none."""
    found = [mesh] if (mesh := jax.sharding.get_abstract_mesh()).size > 1 else []
    for sharding in shardings:
        if sharding is None or _device_count(sharding) == 1:
            continue
        if not isinstance(sharding, NamedSharding):
            return {}, (), f"an argument has a {type(sharding).__name__}: use NamedSharding"
        if sharding.mesh.abstract_mesh not in found:
            found.append(sharding.mesh.abstract_mesh)
    if len(found) > 1:
        return {}, (), "its arguments are on several meshes: place them on one"
    if not found:
        return {}, (), ""
    (mesh,) = found
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    explicit = tuple(str(name) for name, kind in kinds if kind == AxisType.Explicit)
    return {str(name): int(size) for name, size in mesh.shape.items()}, explicit, ""


def _device_count(sharding: Any) -> int:
    return int(sharding.num_devices) if sharding is not None else 1


def _platform(leaves: list[Any]) -> str:
    """Return where the arguments are, or the default platform if none is on a device."""
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)
        if sharding is not None:
            device = next(iter(sharding.device_set))
            return str(device.platform)
    return private.platform()


def has_tracers(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a call is inside a transformation."""
    leaves, _ = private.flatten((args, dict(kwargs)))
    return any(private.is_placeholder(leaf) for leaf in leaves)
