"""The calls of plain `jax.jit` that a program may make, and the keys that jax has for them.

A key depends on more than the computation: the names of the function and of its results, and which
arguments are committed to a device. So one executable may have several keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from aotbuild.jax_cache.arguments import NotExportable
from aotbuild.jax_cache.packaged import Packaged
from aotbuild.jax_cache.source import Given, Source, cache_at
from aotbuild.worker import private as jax_private
from aotbuild.worker.jitted import hashable, in_mesh

# Names of arguments that are committed together.
Committed = frozenset[str]


def keys(
    source: Source, packaged: Packaged, committed: Sequence[Committed], folder: str
) -> list[str]:
    """Return the keys of all plain calls that compile the packaged program.

    `folder` is the path of the cache, as programs have it. NotExportable if there are no keys.
    """
    _check_options(source)
    found: dict[str, None] = {}
    problem = "jax's cache does not serve it"
    for lowered in _lowerings(source, packaged, committed):
        if isinstance(lowered, str):
            problem = lowered
        elif not _is_same(lowered, packaged):
            problem = (
                "jax.jit of its source gives another program: the jit in the source has other "
                "options than the manifest, as donate or shardings, or the arguments have another "
                "order"
            )
        elif key := _key(lowered, folder):
            found[key] = None
    if not found:
        raise NotExportable(problem)
    return [*found]


def _check_options(source: Source) -> None:
    """Refuse options of XLA that a function's own jit has not: no module would show them."""
    compiled = source.record.provenance.get("compiler_options") or {}
    own = jax_private.jit_options(source.function).get("compiler_options_kvs", ())
    if jax_private.is_jitted(source.function) and dict(own) != compiled:
        msg = (
            f"it was compiled with compiler_options {compiled!r}, and the jit in its source has "
            f"{dict(own)!r}"
        )
        raise NotExportable(msg)


def _key(lowered: Any, folder: str) -> str | None:
    with cache_at(folder):
        return jax_private.cache_key(lowered)


def _is_same(lowered: Any, packaged: Packaged) -> bool:
    same_inputs = jax_private.kept_inputs(lowered) == packaged.kept
    return same_inputs and jax_private.plain_module(lowered) == packaged.module


def _lowerings(
    source: Source, packaged: Packaged, committed: Sequence[Committed]
) -> Iterator[Any | str]:
    """Yield what each call is lowered to, or why it cannot be lowered."""
    names = source.arguments_of_leaves()
    contexts = (None, source.mesh) if source.mesh else (None,)
    with_results = (False, True) if source.mesh else (False,)
    for together, context, shards in itertools.product(committed, contexts, with_results):
        leaves = source.leaves([name in together for name in names])
        for given in _calls(source, leaves):
            try:
                with in_mesh(context):
                    yield _jitted(source, packaged, given, shards=shards).lower(
                        *given.args, **given.kwargs
                    )
            except Exception as err:  # noqa: BLE001 (user code may raise anything)
                yield f"jax.jit of its source raised: {type(err).__name__}: {err}"


def _calls(source: Source, leaves: Sequence[Any]) -> Iterator[Given]:
    """Yield the call as a build makes it; and as the manifest says, if that is another one."""
    first = source.call(leaves, dict(source.binding.statics))
    yield first
    second = source.call_by_name(leaves)
    if len(second.args) != len(first.args):
        yield second


def _jitted(source: Source, packaged: Packaged, given: Given, *, shards: bool) -> Any:
    """Return the function as a program calls it: under its own jit, or one with its options."""
    if jax_private.is_jitted(source.function):
        return source.function
    function = hashable(source.function, source.binding)
    options: dict[str, Any] = {
        "static_argnames": source.statics or None,
        "donate_argnames": source.binding.function.donate or None,
        "keep_unused": packaged.keep_unused,
        "compiler_options": source.record.provenance.get("compiler_options") or None,
    }
    if shards:
        tree = jax.jit(function, static_argnames=source.statics or None).trace(
            *given.args, **given.kwargs
        )
        options["out_shardings"] = jax.tree.unflatten(tree.out_tree, _out_shardings(source))
    return jax.jit(function, **options)


def _out_shardings(source: Source) -> list[Any]:
    assert source.mesh is not None
    return [
        NamedSharding(source.mesh, PartitionSpec(*spec)) for spec in source.record.calling.out_specs
    ]
