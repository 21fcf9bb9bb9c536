"""Imports of what a package names: sources, types of results, templates and callbacks."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from aotbuild.format.values import import_object


def import_named(name: str) -> Any:
    """Return the object `module:qualname`; raises whatever importing its module raises."""
    with outside_traces():
        return import_object(name)


def outside_traces() -> AbstractContextManager[None]:
    """Return a context for running code of the user's that is run once for the whole process.

    The first call may be inside a JAX transformation of the caller. Arrays that the code makes must
    not become tracers of that transformation, which globals would keep.
    """
    # Without jax there is no transformation; it may also be half imported in another thread.
    context: Any = getattr(sys.modules.get("jax"), "ensure_compile_time_eval", nullcontext)
    made: AbstractContextManager[None] = context()
    return made
