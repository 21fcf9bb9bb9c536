"""Precompiled JAX functions: find, check and call them without tracing or compiling."""

from typing import TYPE_CHECKING, Any

from aotbuild import errors
from aotbuild.runtime.api import load, precompiled
from aotbuild.runtime.observers import subscribe

if TYPE_CHECKING:
    from aotbuild.runtime import events

__all__ = ["__version__", "errors", "events", "load", "precompiled", "subscribe"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return what few processes need and is imported at its first use."""
    if name == "events":
        from aotbuild.runtime import events

        return events
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
