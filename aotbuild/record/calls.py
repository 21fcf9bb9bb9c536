"""What a call log says of a call: its arguments, static values, settings and devices."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import jax

from aotbuild.format.aval import NotAnArray
from aotbuild.format.canonical import as_utf8, canonical_json, read_canonical
from aotbuild.format.signature import Function
from aotbuild.format.values import NotEncodable, encode
from aotbuild.format.wrap import FILTER_JIT, NnxJit, Wrap, mark
from aotbuild.record import private
from aotbuild.record.call_log import ObservedArgument, ObservedCall, ObservedFunction
from aotbuild.record.names import GlobalNames, main_name
from aotbuild.record.specs import RESERVED, TODO, avals_in
from aotbuild.runtime.jax.private import aval_of

# Options of jax that decide what is traced, and what they are where nobody sets them.
_SETTINGS: dict[str, Any] = {
    "jax_default_matmul_precision": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
    "jax_enable_x64": False,
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
}
# Environment variables that decide what is traced, by the module that reads them.
_VARIABLES = {"equinox": ("EQX_ON_ERROR",)}
_NO_BINDING = "its arguments do not fit its parameters"
_SEVERAL = "it runs on several devices: write its mesh: and in_shardings: by hand"
# A larger tree is written by the name of a global like it, if there is one.
_FEW_ARRAYS = 6


def describe_call(
    observed: ObservedFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any], info: Any = None
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
    return ObservedCall(
        function=key,
        arguments=arguments,
        statics=statics,
        config=_config(),
        env=_env(),
        platform=_platform(leaves),
        problem=problem or _devices(leaves, info) or _shared(wrap, dynamic),
    )


def _argument(name: str, value: Any, wrap: Wrap | None) -> ObservedArgument:
    try:
        return ObservedArgument(name, _described(value, wrap))
    except NotAnArray as err:
        problem = f"a leaf is {err}; jax.jit takes it as a static argument only"
    except Exception as err:  # noqa: BLE001 - the user's types may raise anything
        problem = f"{type(err).__name__}: {err}"
    return ObservedArgument(name, None, problem=problem)


def _wrap_of(observed: ObservedFunction) -> Wrap | None:
    if not observed.wrap:
        return None
    from aotbuild.runtime.jax.wraps import make_wrap

    return make_wrap(Function("", observed.call, (), (), (), (), wrap=observed.wrap))


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


# --- arguments ------------------------------------------------------------------------------------


def _described(value: Any, wrap: Wrap | None) -> Any:
    """Return the spec of an argument; NotAnArray for a leaf that is none.

    `wrap` is that of the function, which says what in the argument is static.
    """
    describer = _Describer(wrap)
    spec = describer.spec(value, "")
    if len([*avals_in(spec)]) > _FEW_ARRAYS and (name := describer.name(value)):
        return {"like": name}
    return spec


class _Describer:
    def __init__(self, wrap: Wrap | None) -> None:
        self._names, self._wrap = GlobalNames(), wrap

    def spec(self, value: Any, place: str) -> Any:
        """Return the spec of a tree; `place` leads to it, as `['w']`."""
        kind = type(value)
        if value is None:
            return None
        if kind in (list, tuple):
            items = [self.spec(item, f"{place}[{index}]") for index, item in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict and all(type(key) is str for key in value):
            found = {key: self.spec(value[key], f"{place}[{key!r}]") for key in sorted(value)}
            return {"dict": found} if any(key in RESERVED for key in found) else found
        if jax.tree_util.all_leaves([self._marked(value)]):
            return str(aval_of(value))
        name = self.name(value)
        where = f"{place}: " if place else ""
        what = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        what += " whose keys are no text" if kind is dict else ""
        return {"like": name} if name else f"{TODO} {where}a {what}"

    def name(self, value: Any) -> str | None:
        """Return the name of a global of the same type, structure and avals.

        Not one of the program itself, which importing it would run.
        """
        leaves, tree = jax.tree_util.tree_flatten(self._marked(value))
        avals = [*map(aval_of, leaves)]
        for other, name in self._names.found():
            if type(other) is not type(value) or name.startswith(f"{main_name()}:"):
                continue
            try:
                found, its_tree = jax.tree_util.tree_flatten(self._marked(other))
                if its_tree == tree and [*map(aval_of, found)] == avals:
                    return name
            except Exception:  # noqa: BLE001, S112 - code of the user's types, which may raise
                continue
        return None

    def _marked(self, value: Any) -> Any:
        return mark(self._wrap, (value,))[0] if self._wrap else value


# --- devices --------------------------------------------------------------------------------------


def _devices(leaves: list[Any], info: Any) -> str:
    """Return why a call on several devices is left out; empty for one on one device."""
    shardings = [*(getattr(leaf, "sharding", None) for leaf in leaves)]
    shardings += private.shardings_of_jit(info)
    is_split = any(each is not None and each.num_devices > 1 for each in shardings)
    return _SEVERAL if is_split or jax.sharding.get_abstract_mesh().size > 1 else ""


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
