"""Import statements, watched from the start of a worker: before jax, and after the project's own.

They are watched before `recording` begins, which looks at the frames of who imports what.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aotbuild.worker.recording.owners import kind_of
from aotbuild.worker.recording.reader import unseen

# What the innermost block of `listening` wants to be told.
_before_jax: list[Callable[[], None]] = []
_after_own: list[Callable[[], None]] = []
_own_files: dict[str, bool] = {}


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
        found = plain(name, globals, locals, fromlist, level)
        if _after_own and isinstance(globals, dict) and _is_own(globals):
            with unseen():
                _after_own[-1]()
        return found

    builtins.__import__ = import_


@contextlib.contextmanager
def listening(*, before_jax: Callable[[], None], after_own: Callable[[], None]) -> Iterator[None]:
    """Call `before_jax` before each import of jax, and `after_own` after each by the project."""
    _before_jax.append(before_jax)
    _after_own.append(after_own)
    try:
        yield
    finally:
        _before_jax.pop()
        _after_own.pop()


def _is_own(names: dict[str, Any]) -> bool:
    name, file = names.get("__name__"), names.get("__file__")
    if not isinstance(name, str) or not isinstance(file, str):
        return False
    if file not in _own_files:
        with unseen():
            _own_files[file] = kind_of(name, file) == "own"
    return _own_files[file]
