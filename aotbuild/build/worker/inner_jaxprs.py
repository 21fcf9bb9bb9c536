"""The jaxprs inside an equation: bodies of loops, branches, functions that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr


def is_jaxpr(value: Any) -> bool:
    """Return whether a parameter is a jaxpr, with or without constants."""
    return isinstance(value, (Jaxpr, ClosedJaxpr))


def inner_jaxprs(params: dict[str, Any]) -> Iterator[Any]:
    """Yield the jaxprs among an equation's parameters, constants with them, by their names."""
    for _, value in sorted(params.items()):
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if is_jaxpr(item):
                yield item


def body_of(closed: Any) -> Any:
    """Return a jaxpr without its constants."""
    return getattr(closed, "jaxpr", closed)
