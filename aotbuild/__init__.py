"""Precompiled JAX functions: find, check and call them without tracing or compiling."""

from os import environ
from typing import TYPE_CHECKING, Any

from aotbuild import errors

if TYPE_CHECKING:
    from aotbuild.record.guard import Guard as guard  # noqa: N813 - called like a function
    from aotbuild.runtime.api import load, precompiled
    from aotbuild.runtime.numpy.arrays import DeviceArray

__all__ = ["DeviceArray", "__version__", "errors", "guard", "load", "precompiled"]

__version__ = "0.1.0"

if "AOTBUILD_GUARD" in environ:
    from aotbuild.record.guard import start_from_environment

    start_from_environment()


def __getattr__(name: str) -> Any:
    """Import what a process uses, at its first use: a build needs nothing of the runtime."""
    if name in ("load", "precompiled"):
        from aotbuild.runtime import api

        return getattr(api, name)
    if name == "guard":
        from aotbuild.record.guard import Guard

        return Guard
    if name == "DeviceArray":
        from aotbuild.runtime.numpy.arrays import DeviceArray

        return DeviceArray
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """Return the public names, also those that were not imported yet."""
    return sorted({*globals(), *__all__})
