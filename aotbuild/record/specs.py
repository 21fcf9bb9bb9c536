"""Arguments as the manifest writes them: avals with the names of dims, in lists and maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.tree import LEAF, Tree, children_of
from aotbuild.format.words import quote
from aotbuild.manifest.spec_reader import RESERVED

# The names of dims inside an argument, by the index of a leaf and that of an axis.
Names = Mapping[tuple[int, int], str]


class Inexpressible(Exception):
    """YAML cannot say what an argument is; the message says why."""


def spec_of(tree: Tree, leaves: tuple[Aval, ...], names: Names) -> Any:
    """Return a tree as lists, maps and texts of YAML; Inexpressible for other nodes.

    `tree` is as `format.tree` describes it.
    """
    texts = (aval_text(aval, index, names) for index, aval in enumerate(leaves))
    return _spec(tree, texts)


def aval_text(aval: Aval, leaf: int, names: Names) -> str:
    """Return an aval with the names of its dims, as `f32[batch,64]`."""
    sizes = [names.get((leaf, axis), str(size)) for axis, size in enumerate(aval.shape)]
    return f"{str(aval).partition('[')[0]}[{','.join(sizes)}]"


def _spec(tree: Tree, texts: Iterator[str]) -> Any:
    if tree == LEAF:
        return next(texts)
    kind = tree[0]
    if kind == "none":
        return None
    if kind == "dict":
        return _dict(tree[1], [_spec(child, texts) for child in children_of(tree)])
    if kind not in ("list", "tuple"):
        msg = f"YAML has no form for a {_shown(tree)}"
        raise Inexpressible(msg)
    items = [_spec(child, texts) for child in children_of(tree)]
    return items if kind == "list" else {"tuple": items}


def _dict(keys: list[Any], items: list[Any]) -> Any:
    odd = next((key for key in keys if not isinstance(key, str)), None)
    if odd is not None:
        msg = f"YAML has no form for a dict with the key {quote(odd)}"
        raise Inexpressible(msg)
    found = dict(zip(keys, items, strict=True))
    is_form = any(key in RESERVED for key in found)
    return {"dict": found} if is_form else found


def _shown(tree: list[Any]) -> str:
    is_named = tree[0] in ("namedtuple", "node") and isinstance(tree[1], str)
    return str(tree[1] if is_named else tree[0])
