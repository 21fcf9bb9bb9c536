"""Import statements of jax, watched from the start of a worker."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# What the innermost block of `listening` wants to be told.
_before_jax: list[Callable[[], None]] = []


def watch_import_statements() -> None:
    """Watch import statements from here on."""
    plain = builtins.__import__

    def import_(  # its parameters may be named, too
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if _before_jax and level == 0 and (name == "jax" or name.startswith("jax.")):
            _before_jax[-1]()
        return plain(name, globals, locals, fromlist, level)

    builtins.__import__ = import_


@contextlib.contextmanager
def listening(before_jax: Callable[[], None]) -> Iterator[None]:
    """Call a function before each import of jax in the block."""
    _before_jax.append(before_jax)
    try:
        yield
    finally:
        _before_jax.pop()
