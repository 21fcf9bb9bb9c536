"""The trees of a record's arguments, in the types of the user's code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from aotbuild.errors import AotbuildError
from aotbuild.runtime.backends.jax.backend import JaxTrees
from aotbuild.runtime.trees import restore
from aotbuild.spec.imports import Imports
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function
from aotbuild.spec.tree import Tree, children_of, leaf_count
from aotbuild.spec.values import decode, import_object


class NotExportable(Exception):
    """An executable has no entry in jax's cache; the text says why."""


def arguments_of(
    record: Record, function: Function, like: Mapping[str, str], imports: Imports
) -> dict[str, Any]:
    """Return the treedef of each argument, by name, in the order of the signature's leaves.

    NotExportable for one that neither the record nor `like` can give. A tree that is not the one of
    the build needs no check here: it gives another program, whose digest tells.
    """
    found = {}
    for name, tree in _described(record, function):
        try:
            found[name] = restore(tree, None, JaxTrees(lambda: imports))
        except (AotbuildError, ValueError, LookupError) as err:
            if name not in like:
                msg = (
                    f"the record does not hold all of {name} ({_found(err)}); name a tree that has "
                    f"the same structure: --like {name}=MODULE:ATTR"
                )
                raise NotExportable(msg) from err
            found[name] = _structure(name, like[name], record)
            if found[name].num_leaves != leaf_count(tree):
                msg = (
                    f"--like {name}={like[name]} has {found[name].num_leaves} arrays; expected "
                    f"{leaf_count(tree)}, as when it was compiled"
                )
                raise NotExportable(msg) from err
    return found


def _found(error: Exception) -> str:
    """Return what of an error is about the tree: its first line, and what was found."""
    first, *rest = str(error).splitlines() or [""]
    found = [line.partition("found")[2].strip() for line in rest if "  found " in line]
    return ": ".join([first.removeprefix("an output holds "), *found])


def _described(record: Record, function: Function) -> Iterator[tuple[str, Tree]]:
    args, kwargs = children_of(record.signature.tree)
    yield from zip(function.dynamic, children_of(args), strict=True)
    yield from zip(kwargs[1], children_of(kwargs), strict=True)


def _structure(name: str, reference: str, record: Record) -> Any:
    """Return the treedef of what `module:attr` is, or returns for the record's dims and statics."""
    try:
        found = import_object(reference)
        found = getattr(found, "__aotbuild_source__", found)
        treedef = jax.tree.structure(found)
        if not callable(found) or treedef.node_data() is not None:
            return treedef
        known = {**record.provenance.get("dims", {}), **_statics(record)}
        wanted = inspect.signature(found).parameters
        return jax.tree.structure(
            jax.eval_shape(lambda: found(**{n: v for n, v in known.items() if n in wanted}))
        )
    except Exception as err:  # user code may raise anything
        msg = f"--like {name}={reference} failed: {type(err).__name__}: {err}"
        raise NotExportable(msg) from err


def _statics(record: Record) -> dict[str, Any]:
    return {name: decode(value) for name, value in record.signature.statics}
