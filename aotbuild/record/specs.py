"""What a manifest says of an argument, as plain values of YAML: avals in lists and maps.

A node that YAML has no form for is `{like: module:attr}` if a global of a module is such a tree,
else a text that begins with TODO and says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

TODO = "TODO"
# Keys by which a map of the manifest is no dict; a test compares them with the manifest's reader.
RESERVED = ("like", "dict", "tuple")


class Unknown(str):
    """A text that is written as it is: TODO."""

    __slots__ = ()


UNKNOWN = Unknown(TODO)


def is_like(spec: dict[str, Any]) -> bool:
    """Return whether a map is `{like: module:attr}`, not a dict with the key `like`."""
    return [*spec] == ["like"] and isinstance(spec["like"], str) and ":" in spec["like"]


def _leaves(spec: Any) -> Iterator[Any]:
    """Yield the texts and the `like:` maps of a spec, in jax's order."""
    if isinstance(spec, list):
        for item in spec:
            yield from _leaves(item)
    elif isinstance(spec, dict) and not is_like(spec):
        for key in sorted(spec):
            yield from _leaves(spec[key])
    elif spec is not None:
        yield spec


def avals_in(spec: Any) -> Iterator[str]:
    """Yield the avals in a spec, in jax's order; TODO and `like:` have none."""
    return (leaf for leaf in _leaves(spec) if isinstance(leaf, str) and not leaf.startswith(TODO))


def likes_in(spec: Any) -> Iterator[str]:
    """Yield `module:attr` of each `like:` in a spec."""
    return (leaf["like"] for leaf in _leaves(spec) if isinstance(leaf, dict))


def todos_in(spec: Any) -> Iterator[str]:
    """Yield what each TODO in a spec stands for."""
    texts = (leaf for leaf in _leaves(spec) if isinstance(leaf, str))
    return (text.removeprefix(TODO).strip() for text in texts if text.startswith(TODO))


def with_avals(spec: Any, change: Callable[[str], Any]) -> Any:
    """Return a spec in which each text, in jax's order, is what `change` makes of it."""
    if isinstance(spec, str):
        return change(spec)
    if isinstance(spec, list):
        return [with_avals(item, change) for item in spec]
    if isinstance(spec, dict) and not is_like(spec):
        return {key: with_avals(spec[key], change) for key in sorted(spec)}
    return spec
