"""Precompiled JAX functions: found, checked and called with no tracing and no compiling."""

from aotbuild import errors
from aotbuild.runtime.api import load, precompiled

__all__ = ["__version__", "errors", "load", "precompiled"]

__version__ = "0.1.0"
