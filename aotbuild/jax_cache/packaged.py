"""The program that a packaged executable was compiled from, lowered here once more.

The record has the digest of its module. Nothing else is believed: a module of another digest means
that the source, a version or a setting is not that of the build.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from aotbuild.jax_cache.arguments import NotExportable
from aotbuild.jax_cache.source import Source, no_locations
from aotbuild.spec.canonical import sha256_hex
from aotbuild.worker import private as jax_private
from aotbuild.worker.jitted import hashable, in_mesh, trace_jitted
from aotbuild.worker.lower import jit_leaves
from aotbuild.worker.trace import reorder


@dataclass(frozen=True)
class Packaged:
    """The program of an executable.

    Attributes:
        module: Its module, without what says nothing of the computation.
        kept: The inputs that the executable takes.
        keep_unused: Whether it was compiled to take all.
        out_specs: Whether its results have the shardings of the record, and not those that XLA
            chose.
    """

    module: bytes
    kept: tuple[int, ...]
    keep_unused: bool
    out_specs: bool


@dataclass(frozen=True)
class _Options:
    """What a record does not say about its compilation: the digest shows which it was."""

    context: Mesh | None
    keep_unused: bool
    out_specs: bool


def packaged_program(source: Source) -> Packaged:
    """Return the program that the executable of a record was compiled from.

    NotExportable if the source gives another one here.
    """
    expected = source.record.provenance.get("stablehlo")
    with no_locations():
        for options in _possible(source):
            closed = _traced(source, options.context)
            lowered = _lowered(source, closed, options)
            if sha256_hex(jax_private.module_bytes(lowered)) == expected:
                # A function under jit is a call of a function there, and none in a plain program.
                inner = _lowered(source, jax_private.inner_of_jit(closed), options)
                found = jax_private.plain_module(inner)
                kept = jax_private.kept_inputs(lowered)
                return Packaged(found, kept, options.keep_unused, options.out_specs)
    msg = (
        f"{source.record.provenance.get('label')}: the source is not what was compiled: its module "
        f"has another digest than {str(expected)[:16]}…; install the package in the version of the "
        "build, with the same jax and the same libraries"
    )
    raise NotExportable(msg)


def _possible(source: Source) -> Iterator[_Options]:
    calling = source.record.calling
    inputs = len(calling.constants) + len(source.record.signature.leaves)
    contexts = (source.mesh, None) if source.mesh else (None,)
    keeps = (False, True) if len(calling.kept) == inputs else (False,)
    specs = (False, True) if source.mesh else (False,)
    yield from itertools.starmap(_Options, itertools.product(contexts, keeps, specs))


def _traced(source: Source, context: Mesh | None) -> Any:
    explicit = source.record.calling.explicit_axes
    leaves = source.leaves([True] * len(source.record.signature.leaves) if explicit else None)
    given = source.call(leaves, dict(source.binding.statics))
    function = hashable(source.function, source.binding)
    try:
        traced = trace_jitted(function, given.args, given.kwargs, source.statics, context)
        return reorder(traced.jaxpr, source.leaf_order(), tuple(leaves), context)
    except Exception as err:  # user code may raise anything
        msg = f"its source raised while it was traced: {type(err).__name__}: {err}"
        raise NotExportable(msg) from err


def _lowered(source: Source, closed: Any, options: _Options) -> Any:
    calling, mesh = source.record.calling, source.mesh
    shardings: dict[str, Any] = {}
    if mesh is None:
        here = SingleDeviceSharding(source.devices[0])
        shardings = {"in_shardings": here, "out_shardings": here}
    else:
        shardings["in_shardings"] = [_over(mesh, spec) for spec in calling.in_specs]
        shardings["out_shardings"] = [
            _over(mesh, spec) if options.out_specs else None for spec in calling.out_specs
        ]
    rest = {**shardings, "keep_unused": options.keep_unused}
    with in_mesh(options.context):
        jitted = jit_leaves(calling.name, closed, calling.donated, rest)
        return jitted.trace(*source.leaves()).lower()


def _over(mesh: Mesh, spec: Any) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*spec))
