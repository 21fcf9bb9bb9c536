"""Each job traces and runs with caches of its own, so that no job decides the program of another.

jax caches traces, those of functions that are jitted inside of a program, too. It compares static
data with `==`: to it `0.0` and `-0.0` are one value, and so are `(1,)` and `(1.0,)`, or two
dataclasses with a field `3` and `3.0`. What one job traced for the first would be taken by the next
for the second. The value of a user context is part of every key of jax's caches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax

_numbers = itertools.count(1)


@contextmanager
def own_caches() -> Iterator[None]:
    """Have the block find nothing in jax's caches but what was put there within it."""
    with _context()(next(_numbers)):
        yield


@cache
def _context() -> Any:
    return jax.make_user_context(0)
