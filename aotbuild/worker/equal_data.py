"""Static data that is equal and yet not the same, as 0.0 and -0.0, or (1,) and (1.0,).

jax's caches compare with `==`. What was traced for one of two such values would be taken for the
other, if the same process traces both. So its caches are cleared in between. Each function that is
jitted inside of the program has such caches too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import suppress

import jax

from aotbuild.spec.canonical import canonical_json
from aotbuild.spec.values import encode
from aotbuild.worker.jitted import Jitted
from aotbuild.worker.static_data import Described

# By the data, as jax compares it: the JSON of what was traced last, which tells types and signs.
_traced: dict[Hashable, bytes] = {}


def forget_equal(jitted: Jitted, described: Described) -> None:
    """Clear jax's caches if they may hold a trace for data that is equal and not the same."""
    found = [*_data(jitted, described)]
    if any(_last(key) not in (None, text) for key, text in found):
        jax.clear_caches()
        _traced.clear()
    for key, text in found:
        with suppress(Exception):  # of user types: jax cannot have cached anything by them
            _traced[key] = text


def _last(key: Hashable) -> bytes | None:
    with suppress(Exception):
        return _traced.get(key)
    return None


def _data(jitted: Jitted, described: Described) -> Iterator[tuple[Hashable, bytes]]:
    """Yield static arguments, and trees of arrays with the static data in them."""
    # By the name alone: functions may share one that is jitted.
    for name, value in jitted.binding.statics:
        yield (name, value), canonical_json(encode(value))
    tree = jax.tree.structure(jitted.canonical)
    yield (jitted.job.call, tree), canonical_json(described.tree)
