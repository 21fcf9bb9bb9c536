"""Calls with copies of their numpy arrays, for callers that change these right after a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from aotbuild.format.aval import NotAnArray
from aotbuild.runtime.binding import bind
from aotbuild.runtime.buffers import aligned
from aotbuild.runtime.trees import flatten

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Backend
    from aotbuild.runtime.dispatch import Dispatch


def copying(dispatch: Dispatch, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes a call with copies of its numpy arrays.

    An array that no executable takes is refused, also where the C++ cache would take it for a known
    one, as it does with byte orders.
    """
    backend, is_wrapped = dispatch.backend, bool(dispatch.function.wrap)

    def copied(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return _copied(value, backend)
        if is_wrapped:  # a wrapped function changes the very objects that it is given
            return value
        leaves, treedef = backend.trees.flatten(value)
        if not any(isinstance(leaf, np.ndarray) for leaf in leaves):
            return value
        return treedef.unflatten([_copied(leaf, backend) for leaf in leaves])

    def call_with_copies(*args: Any, **kwargs: Any) -> Any:
        try:
            copies: list[Any] | None = [copied(value) for value in args]
            named = {name: copied(value) for name, value in kwargs.items()}
        except (NotAnArray, ValueError):  # ValueError: nothing that can be flattened
            copies = None
        if copies is not None:
            return call(*copies, **named)
        # Raises which argument it is.
        flatten(bind(dispatch.function, args, kwargs), backend)
        return call(*args, **kwargs)

    return call_with_copies


def _copied(leaf: Any, backend: Backend) -> Any:
    """Return a copy of a numpy array that XLA:CPU takes as it is; NotAnArray if nothing takes it.

    Any other leaf is returned as it is.
    """
    if not isinstance(leaf, np.ndarray):
        return leaf
    if type(leaf) is not np.ndarray or not leaf.dtype.isnative or leaf.dtype.hasobject:
        backend.aval_of(leaf)
    copy = aligned(leaf.nbytes).view(leaf.dtype).reshape(leaf.shape)
    copy[...] = leaf
    return copy
