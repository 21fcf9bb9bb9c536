"""Fields of JSON objects: each function returns a value of its kind, or raises TypeError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def text(value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise _not(value, "text")
    return value


def whole(value: Any) -> int:
    """Return a number that every file, array and machine integer can have."""
    if type(value) is not int or not abs(value) < 1 << 62:
        raise _not(value, "a whole number")
    return value


def flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise _not(value, "true or false")
    return value


def tolerance(value: Any) -> float:
    """Return a tolerance of a comparison: a number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise _not(value, "a tolerance")
    return float(value)


def mapping(value: Any) -> dict[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise _not(value, "an object")
    return dict(value)


def optional(read: Callable[[Any], T], value: Any) -> T | None:
    """Return what `read` does, or None for null."""
    return None if value is None else read(value)


def _not(value: Any, kind: str) -> TypeError:
    return TypeError(f"expected {kind}, found {value!r}")
