"""Variables that jax reads when it is imported, as JAX_ENABLE_X64, and modules that set them.

A program's module may set one in `os.environ` and import jax after that. A worker has imported jax
before, which does not look again. So it is told what it would have read: when the module imports
jax, or at the end of the module if it does not. A variable that is set later decides nothing.
"""

from __future__ import annotations

import contextlib
import os

_PREFIX, _XLA_FLAGS = "JAX_", "XLA_FLAGS"
# XLA only reads it where a process makes its devices.
_DEVICES = "--xla_force_host_platform_device_count="
# `bool_env` of jax/_src/config.py.
_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


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
