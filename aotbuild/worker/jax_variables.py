"""Variables that jax reads when it is imported, as JAX_ENABLE_X64, and modules that set them.

A program's module may set one in `os.environ` and import jax after that. A worker has imported jax
before, which does not look again. So it is told what it would have read: when the module imports
jax, or at the end of the module if it does not. A variable that is set later decides nothing.
"""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_PREFIX, _XLA_FLAGS = "JAX_", "XLA_FLAGS"
# XLA only reads it where a process makes its devices.
_DEVICES = "--xla_force_host_platform_device_count="
# `bool_env` of jax/_src/config.py.
_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")
# What the innermost block of `listening` wants to be told.
_before_jax: list[Callable[[], None]] = []


class JaxVariables:
    """What the modules that a job names set, before the first of them imports jax.

    `flags` has what each module added to XLA_FLAGS, and `devices` the number of CPU devices there.
    """

    def __init__(self) -> None:
        self._before = _variables()
        self._flags = _xla_flags()
        self._is_imported = False
        self.flags: dict[str, list[str]] = {}
        self.devices: dict[str, str] = {}

    def jax_is_imported(self) -> None:
        """A module imports jax, for the first time or again: tell jax what was set before."""
        if not self._is_imported:
            self._is_imported = True
            self._tell()

    def leave(self, module: str) -> None:
        """A module was imported: if none has imported jax yet, it will see what was set."""
        if not self._is_imported:
            self._tell()
        before, self._flags = self._flags, _xla_flags()
        for flag in self._flags:
            if flag.startswith(_DEVICES) and flag not in before:
                self.devices[module] = flag.removeprefix(_DEVICES)
            elif flag not in before:
                self.flags.setdefault(module, []).append(flag)

    def _tell(self) -> None:
        """Set the options of jax whose variables have changed."""
        for name, text in _variables().items():
            if self._before.get(name) != text:
                self._before[name] = text
                _set_option(name.lower(), text)


def _variables() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith(_PREFIX)}


def _xla_flags() -> list[str]:
    return os.environ.get(_XLA_FLAGS, "").split()


def _set_option(name: str, text: str) -> None:
    """Set an option of jax as its variable says; what jax has no option for, or refuses, is not."""
    import jax  # which a process without jobs does not need

    known = jax.config.values.get(name, jax)
    if known is jax:
        return
    with contextlib.suppress(ValueError, TypeError, RuntimeError):
        if isinstance(known, bool):
            if text.lower() in (*_TRUE, *_FALSE):
                jax.config.update(name, text.lower() in _TRUE)
        else:
            jax.config.update(name, int(text) if isinstance(known, int) else text)


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
