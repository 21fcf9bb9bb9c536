"""Calls counted by signature, for those who ask: each call then passes Python.

Imported only if calls are counted. A warm call is counted by what decides its avals: its tree and
the kind, shape and dtype of each leaf. The text of a signature is made once for each of these.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime.binding import bind, dynamic_values
from aotbuild.runtime.events import describe
from aotbuild.runtime.trees import flatten
from aotbuild.runtime.wrapped import with_markers

if TYPE_CHECKING:
    from aotbuild.format.signature import Function
    from aotbuild.runtime.backend import Backend

# Kinds of calls that are told apart for each function.
_MOST_KINDS = 4096
_OTHERS = "others"  # calls that have no signature


class CallCounts:
    """The calls of one library that returned, by function and signature."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may interrupt `_add` and call a kernel.
        self._lock = threading.RLock()
        self._counts: dict[str, Counter[str]] = {}

    def counted(
        self, function: Function, backend: Backend, plain: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return what calls `plain`, and counts the call when it has returned."""
        texts: dict[Hashable, str | None] = {}
        counts = self._counts.setdefault(function.name, Counter())

        def call(*args: Any, **kwargs: Any) -> Any:
            outputs = plain(*args, **kwargs)
            key = _key(function, backend, args, kwargs)
            text = texts.get(key, _OTHERS)
            if text is _OTHERS:
                text = _text(function, backend, args, kwargs)
                if key is not None and len(texts) < _MOST_KINDS:
                    texts[key] = text
            if text is not None:
                with self._lock:
                    counts[text] += 1
            return outputs

        return call

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Return the counts as plain data."""
        with self._lock:
            return {name: dict(counts) for name, counts in self._counts.items()}


def _key(
    function: Function, backend: Backend, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Hashable | None:
    """Return what decides the signature of a call; None if that takes the signature itself."""
    statics = ""
    if function.wrap:
        return None
    try:
        if function.statics:
            bound = bind(function, args, kwargs)
            args, kwargs, statics = bound.args, bound.kwargs, bound.statics_key
        leaves, treedef = backend.trees.flatten((args, kwargs))
    except (AotbuildError, ValueError):
        return None
    facts = tuple(map(backend.padding.aval_key, leaves))
    return None if None in facts else (treedef, facts, statics)


def _text(
    function: Function, backend: Backend, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """Return the signature of a call; None for one inside a transformation, or without any."""
    if backend.has_tracers(dynamic_values(function, args, kwargs)):
        return None
    try:
        bound = bind(function, args, kwargs)
        if function.wrap:
            bound, _ = with_markers(bound, backend)
        return describe(flatten(bound, backend).signature)
    except AotbuildError:  # a fallback took what no executable takes
        return _OTHERS
