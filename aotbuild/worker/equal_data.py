"""Static data that is equal and yet not the same, as 0.0 and -0.0, or (1,) and (1.0,).

jax's caches compare with `==`. What was traced for one of two such values would be taken for the
other, if the same process traces both. So its caches are cleared in between. Functions that are
jitted inside of the program have such caches, too, and get parts of the data: an element of a
static argument, or a node of a tree.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import Any

import jax

from aotbuild.spec.canonical import canonical_json
from aotbuild.spec.values import encode
from aotbuild.worker.jitted import Jitted

# What needs no look: the static data of these nodes is their keys.
_CONTAINERS = (dict, list, tuple, type(None))
# By the data, as jax compares it: what was traced last, as text with types and signs.
_traced: dict[Hashable, set[str]] = {}


def forget_equal(jitted: Jitted) -> None:
    """Clear jax's caches if they may hold a trace for data that is equal and not the same."""
    found: dict[Hashable, set[str]] = {}
    for key, value in _data(jitted):
        # User types may refuse to be hashed, compared or written down; then nothing is cached, or
        # nobody can tell.
        with suppress(Exception):
            found.setdefault(key, set()).add(canonical_json(encode(value)).decode())
    if any(_last(key, texts) != texts for key, texts in found.items()):
        jax.clear_caches()
        _traced.clear()
    for key, texts in found.items():
        with suppress(Exception):
            _traced[key] = texts


def _last(key: Hashable, otherwise: set[str]) -> set[str]:
    with suppress(Exception):
        return _traced.get(key, otherwise)
    return otherwise


def _data(jitted: Jitted) -> Iterator[tuple[Hashable, Any]]:
    """Yield keys and what they stand for: static arguments, their parts, and nodes of trees."""
    for name, value in jitted.binding.statics:
        # By the name alone: functions may share one that is jitted.
        yield from (((name, part), part) for part in _parts(value))
    yield from _nodes(jax.tree.structure(jitted.canonical))


def _parts(value: Any) -> Iterator[Any]:
    """Yield a static value and what is in it, but what jax tells apart by type."""
    if isinstance(value, int | str) or value is None or (isinstance(value, float) and value):
        return
    yield value
    inside = value if isinstance(value, tuple | frozenset) else getattr(value, "__dict__", {})
    for each in inside.values() if isinstance(inside, dict) else inside:
        yield from _parts(each)


def _nodes(treedef: Any) -> Iterator[tuple[Hashable, Any]]:
    node = treedef.node_data()
    if node is None:
        return
    kind, data = node
    if kind not in _CONTAINERS:
        yield (kind, data), data
    for child in treedef.children():
        yield from _nodes(child)
