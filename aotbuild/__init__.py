"""Precompiled JAX functions: find, check and call them without tracing or compiling."""

from aotbuild import errors
from aotbuild.runtime.api import load, precompiled

__all__ = ["__version__", "errors", "load", "precompiled"]

__version__ = "0.1.0"
