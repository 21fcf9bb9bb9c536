"""The source of an executable under `jax.jit`, called with the leaves of a signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from aotbuild.bench.runners import Runner, compiled_runner
from aotbuild.errors import AotbuildError
from aotbuild.runtime.backends.jax.backend import JaxTrees
from aotbuild.runtime.imports import import_named
from aotbuild.runtime.trees import restore
from aotbuild.spec.identity import named
from aotbuild.spec.imports import Imports
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function
from aotbuild.spec.tree import TreeRefused
from aotbuild.spec.values import decode


def source_maker(record: Record, function: Function, imports: Imports) -> Callable[[], Runner]:
    """Return what traces and compiles the source; AotbuildError says why there is none here."""
    if function.wrap:
        msg = f"its source is under {function.wrap}, whose objects no record describes"
        raise AotbuildError(msg)
    try:
        source = import_named(function.call, imports)
    except Exception as err:  # the user's modules may raise anything
        msg = f"{function.call} cannot be imported here: {type(err).__name__}: {err}"
        raise AotbuildError(msg) from err
    treedef = _treedef(record, imports)
    decoders = named(imports.found)
    statics = {name: decode(value, decoders) for name, value in record.signature.statics}
    _set(record.provenance.get("config"))
    flat = getattr(source, "__wrapped__", source)

    def call(*leaves: Any) -> Any:
        args, kwargs = jax.tree_util.tree_unflatten(treedef, leaves)
        dynamic = dict(zip(function.dynamic, args, strict=True)) | kwargs
        values = {**dynamic, **statics}
        positional = [values.pop(name) for name in function.positional if name in values]
        return flat(*positional, **values)

    return lambda: compiled_runner(record, call, record.calling.donated)


def _treedef(record: Record, imports: Imports) -> Any:
    try:
        return restore(record.signature.tree, None, JaxTrees(lambda: imports))
    except (AotbuildError, TreeRefused, ValueError) as err:
        msg = f"its arguments cannot be made from the record alone: {err}"
        raise AotbuildError(msg) from err


def _set(config: Any) -> None:
    """Set the options of jax that the executable was traced with."""
    for name, value in config.items() if isinstance(config, dict) else ():
        jax.config.update(name, value)
