"""What tracing changed around a function: values, kept tracers, the state of random generators."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from aotbuild.build.worker.purity.captured import Captured, Place
from aotbuild.build.worker.purity.held import CACHE_AROUND
from aotbuild.spec.canonical import sha256_hex

_NOTHING = (None, "nothing")
# More would be read by nobody.
_MOST_SHOWN = 8
# What jax says of a tracer that outlived its trace.
_ORIGIN = re.compile(r"created on line (.+?):(\d+)(?::\d+)? \((.+?)\)")


def describe_changes(*moments: Captured) -> tuple[str, ...]:
    """Return one sentence for each place whose value changed; what is inside it is left out.

    `moments` are the state before the first trace and after each one.
    """
    found = list(_changes(moments))
    missing = len(found) - _MOST_SHOWN
    more = (f"{missing} more values changed while tracing",) if missing > 0 else ()
    return (*found[:_MOST_SHOWN], *more)


def kept_tracers(before: Captured, after: Captured) -> Iterator[tuple[Place, str]]:
    """Yield where a traced value was left, and the line that made it, as `file:line in function`.

    What an earlier function of this worker left is that function's fault. An argument has no line.
    """
    old = set(map(id, before.tracers.values()))
    for place, tracer in after.tracers.items():
        if id(tracer) not in old:
            yield place, _origin(tracer)


def random_states() -> dict[str, str]:
    """Return digests of the generators inside the modules `random` and `numpy.random`."""
    kind, words, *rest = np.random.get_state()
    states = {
        "random": random.getstate(),
        "numpy.random": (kind, np.asarray(words).tobytes(), rest),
    }
    return {name: sha256_hex(repr(state).encode()) for name, state in states.items()}


def _changes(moments: tuple[Captured, ...]) -> Iterator[str]:
    told: list[str] = []
    tracers = {place for moment in moments for place in moment.tracers}
    for place in dict.fromkeys(place for moment in moments for place in moment.values):
        # A cache that fills is what it is for.
        if place in tracers or place.kind == CACHE_AROUND:
            continue
        if place.expression.startswith(tuple(told)):
            continue
        words = _change(moments, place)
        if words:
            told += [f"{place.expression}.", f"{place.expression}["]
            yield f"{place} {words}"


def _change(moments: tuple[Captured, ...], place: Place) -> str:
    # Where a walk met its bounds, what it lacks may well be there.
    known = [m.values.get(place, _NOTHING) for m in moments if m.complete or place in m.values]
    if all(value[0] == known[0][0] for value in known):
        return ""
    words = [known[0][1]]
    for old, new in itertools.pairwise(known):
        if new[0] != old[0]:
            words.append(f"another {new[1].removeprefix('a ')}" if new[1] == old[1] else new[1])
    return f"changed while tracing: {' -> '.join(words)}"


def _origin(tracer: Any) -> str:
    """Return where a tracer was made, which jax tells in the error about using it."""
    try:
        jax.lax.optimization_barrier(tracer)
    except Exception as err:  # noqa: BLE001 (whatever it is, only its text is of use)
        found = _ORIGIN.search(str(err))
        if found:
            return f"{found[1]}:{found[2]} in {found[3]}"
    return ""
