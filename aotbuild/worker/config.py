"""jax's settings: apply the manifest's once, and refuse user code that changes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from aotbuild.errors import TraceRefused
from aotbuild.spec.words import did_you_mean

# These do not change an executable: logging, caches, the default backend.
_HARMLESS = (
    "jax_compilation_cache",
    "jax_compiler_detailed_logging",
    "jax_debug_log",
    "jax_default_device",
    "jax_dump_ir",
    "jax_enable_compilation_cache",
    "jax_explain_cache_misses",
    "jax_log",
    "jax_persistent_cache",
    "jax_platform",
    "jax_raise_persistent_cache_errors",
    "jax_traceback_filtering",
    "jax_transfer_guard",
)


# Options that change dtypes, random bits or precision; the record keeps their values.
_PINNED = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
)


def apply_config(config: Iterable[tuple[str, Any]]) -> None:
    """Set the manifest's options of jax; TraceRefused names one that jax refuses."""
    for name, value in config:
        known = dict(jax.config.values)
        if name not in known:
            msg = f"config: jax {jax.__version__} has no option {name!r}{did_you_mean(name, known)}"
            raise TraceRefused(msg)
        if isinstance(known[name], bool) and not isinstance(value, bool):
            msg = f"config: {name}: expected true or false, found {value!r}"
            raise TraceRefused(msg)
        try:
            jax.config.update(name, value)
        except (ValueError, TypeError, RuntimeError) as err:
            msg = f"config: {name}: jax refuses {value!r}: {err}"
            raise TraceRefused(msg) from err


def traced_with(config: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the options of jax that decide a trace, and those of the manifest."""
    return {**{name: jax.config.values[name] for name in _PINNED}, **dict(config)}


@contextlib.contextmanager
def unchanged_config(role: str) -> Iterator[None]:
    """Undo every change of jax's settings in the block; TraceRefused if one decides a trace.

    A worker serves several functions, so one module's settings would reach the next.
    """
    before = dict(jax.config.values)
    try:
        yield
        changes = [f"{n} from {before[n]!r} to {jax.config.values[n]!r}" for n in _changed(before)]
        if changes:
            name = _changed(before)[0]
            msg = (
                f"{role}: importing or tracing it changed jax's settings: {', '.join(changes)}\n"
                "Say in the manifest what the function is compiled with, for example "
                f"config: {{{name}: {_yaml(jax.config.values[name])}}}"
            )
            raise TraceRefused(msg)
    finally:
        for name, value in before.items():
            if jax.config.values[name] != value:
                jax.config.update(name, value)


def _changed(before: dict[str, Any]) -> list[str]:
    now = jax.config.values
    return [n for n in before if now[n] != before[n] and not n.startswith(_HARMLESS)]


def _yaml(value: Any) -> str:
    return {True: "true", False: "false", None: "null"}.get(value, str(value))
