"""Trees that a file beside the manifest describes: made again, with avals for arrays."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax

from aotbuild.errors import TraceRefused
from aotbuild.format.canonical import canonical_json
from aotbuild.format.construct import DECODERS
from aotbuild.format.constructions import MADE
from aotbuild.format.restore import Maker, NotRestored, numpy_value, restore
from aotbuild.format.tree import Tree, TreeRefused, children_of, describe, register_markers
from aotbuild.format.values import cut, decode, import_object
from aotbuild.format.wrap import Wrap
from aotbuild.manifest import FileSpec
from aotbuild.worker import private as jax_private
from aotbuild.worker.deferred import hold

_REMEDY = "Record it again, or name a function that makes it with like:."
_LONGEST = 200
_PYTHON = "{}.{}".format(*sys.version_info)
# The treedefs and static data that were made in this process, by their JSON: what is equal stays
# equal where it has no `==` of its own, and is one object as in the program that was recorded.
_treedefs: dict[str, Any] = {}
_made: dict[bytes, Any] = {}


def file_tree(spec: FileSpec, role: str, leaves: Sequence[Any], wrap: Wrap | None = None) -> Any:
    """Return the tree that a file describes, with these `jax.ShapeDtypeStruct`s as its leaves.

    Its static leaves are what markers stand for under `wrap`. TraceRefused begins with `role`.
    """
    where = f"{role}: {spec.name} in {spec.file}"
    tree = json.loads(spec.tree)
    if _has_markers(tree) and wrap is None:
        msg = f"{where} was recorded under a wrap, which the function has not; add wrap:"
        raise TraceRefused(msg)
    if spec.tree not in _treedefs:
        _treedefs[spec.tree] = _treedef(tree, where)
    made = hold(_treedefs[spec.tree], leaves)
    return wrap.restore((made,))[0] if wrap else made


def _treedef(tree: Tree, where: str) -> Any:
    register_markers(jax.tree_util.register_pytree_node)
    try:
        treedef = restore(tree, Maker(_make_treedef, _type, decoders=_DECODERS))
    except NotRestored as err:
        msg = f"{where}: it holds {err}\n{_REMEDY}"
        raise TraceRefused(msg) from err
    try:
        found = describe(treedef)
    except TreeRefused:
        return treedef  # which is told of with the other arguments
    if difference := _difference(tree, found):
        msg = (
            f"{where}: what can be made of it is not what was recorded: {difference}\n"
            f"Its source, or the library that defines it, may have changed. {_REMEDY}"
        )
        raise TraceRefused(msg)
    return treedef


def _has_markers(tree: Tree) -> bool:
    return tree[0] in ("static", "shared") or any(map(_has_markers, children_of(tree)))


def _make_treedef(node_data: Any, children: Sequence[Any]) -> Any:
    if node_data is None:
        return jax.tree_util.tree_structure(0)
    return jax_private.make_treedef(node_data, list(children))


def _type(name: Any) -> Any:
    """Return the type that a name leads to, or what has a construction because none does."""
    if not isinstance(name, str):
        return decode(name, _DECODERS)
    try:
        return import_object(name)
    except BaseException as err:  # importing runs the user's code
        msg = f"{type(err).__name__}: {err}"
        raise ImportError(msg) from err


def _make(body: Any, again: Callable[[Any], Any]) -> Any:
    construction = canonical_json(body[2])
    if construction not in _made:
        _made[construction] = again(body[2])
    return _made[construction]


_DECODERS = {
    **DECODERS,
    MADE: _make,
    "array": lambda body, _: jax.numpy.asarray(numpy_value(*body)),
}


# --- is it what was recorded? -------------------------------------------------------------------


def _difference(recorded: Any, found: Any) -> str:
    """Return how a description differs from the recorded one; empty if it does not.

    Digests are those of one version of Python. What has a name is what the name leads to, in all
    versions of the source, if it is of the same type.
    """
    digests = True
    if isinstance(recorded, dict) and MADE in recorded:
        python, recorded, construction = recorded[MADE]
        digests = python == _PYTHON and set(construction) != {"name"}
    return _unequal(recorded, found, digests=digests)


def _unequal(recorded: Any, found: Any, *, digests: bool) -> str:
    if isinstance(recorded, dict) and MADE in recorded:
        return _difference(recorded, found)
    if isinstance(recorded, dict) and isinstance(found, dict) and recorded.keys() == found.keys():
        if "fingerprint" in recorded and not digests:
            recorded, found = recorded["fingerprint"][:1], found["fingerprint"][:1]
        else:
            pairs = ((value, found[key]) for key, value in recorded.items())
            return next((d for pair in pairs if (d := _unequal(*pair, digests=digests))), "")
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for pair in zip(recorded, found, strict=True):
            if difference := _unequal(*pair, digests=digests):
                return difference
        return ""
    return "" if recorded == found else f"expected {_text(recorded)}, found {_text(found)}"


def _text(part: Any) -> str:
    return cut(json.dumps(part, ensure_ascii=False), _LONGEST)
