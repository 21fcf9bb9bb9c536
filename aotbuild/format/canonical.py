"""Canonical JSON: one value, one encoding, one digest; and typed fields read from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

DEEPEST = 256
_TOO_DEEP = f"JSON deeper than {DEEPEST} levels"
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: Any) -> bytes:
    """Return the one JSON encoding of `value`: sorted keys, no spaces, UTF-8, no NaN."""
    return _ENCODER.encode(value).encode("utf-8")


def canonical_digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`.

    Unlike `canonical_json`, it takes texts that are not UTF-8, such as names of files (PEP 383).
    """
    return sha256_hex(_ENCODER.encode(value).encode("utf-8", "surrogatepass"))


def is_utf8(name: str) -> bool:
    """Return whether a text of the system can be encoded, as most can."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def as_utf8(name: str) -> str:
    """Return a text of the system with `\\udcff` for each byte that is not UTF-8."""
    return name if is_utf8(name) else name.encode("utf-8", "backslashreplace").decode("utf-8")


def read_canonical(data: bytes) -> Any:
    """Read what `canonical_json` wrote; ValueError for any other bytes.

    The result has no NaN, no lone surrogates and no duplicate keys, and is at most 256 levels deep,
    so code that walks it needs no limit of its own.
    """
    try:
        value = json.loads(data)
        is_canonical = canonical_json(value) == data
    except RecursionError as err:
        raise ValueError(_TOO_DEEP) from err
    if not is_canonical:
        msg = "not canonical JSON"
        raise ValueError(msg)
    if data.count(b"[") + data.count(b"{") > DEEPEST and _depth(value) > DEEPEST:
        raise ValueError(_TOO_DEEP)
    return value


def _depth(value: Any) -> int:
    """Return the nesting depth of lists and objects."""
    depth, level = 0, [value]
    while containers := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        level = [
            child
            for item in containers
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def sha256_hex(data: bytes | memoryview) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def lists(value: Any) -> Any:
    """Return a value with lists in the place of its tuples, as JSON has them."""
    return [lists(item) for item in value] if isinstance(value, tuple | list) else value


T = TypeVar("T")


def text(value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise _not(value, "text")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts in a list."""
    if not isinstance(value, list | tuple):
        raise _not(value, "a list")
    return tuple(map(text, value))


def whole(value: Any) -> int:
    """Return a whole number that fits every file, array and machine integer."""
    if type(value) is not int or not abs(value) < 1 << 62:
        raise _not(value, "a whole number")
    return value


def flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise _not(value, "true or false")
    return value


def tolerance(value: Any) -> float:
    """Return the tolerance of a comparison: a number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise _not(value, "a tolerance")
    return float(value)


def mapping(value: Any) -> dict[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise _not(value, "an object")
    return dict(value)


def optional(read: Callable[[Any], T], value: Any) -> T | None:
    """Return the result of `read`, or None for null."""
    return None if value is None else read(value)


def _not(value: Any, kind: str) -> TypeError:
    return TypeError(f"expected {kind}, found {value!r}")
