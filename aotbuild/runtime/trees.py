"""The part of a backend that takes arguments apart: its types, imported for errors only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from aotbuild.format.aval import Aval


class Trees(Protocol):
    """Pytrees of a backend: which types are nodes, and how treedefs are made.

    `nodes` are the types, as `module:name`, that are nodes besides the standard containers and
    namedtuples. None means all that are registered with jax. If they are listed, namedtuples that
    jax defines are restored as tuples, because importing them would import jax.
    """

    nodes: frozenset[str] | None

    def flatten(self, tree: Any) -> tuple[list[Any], Any]:
        """Return the leaves of a tree and its treedef; ValueError for keys without an order."""
        ...

    def paths(self, tree: Any) -> list[tuple[Any, ...]]:
        """Return the key path of each leaf; `str(key)` is how a key is written."""
        ...

    def children(self, node: Any) -> list[tuple[str, Any]]:
        """Return the children of a node, as None too, and how the step to each is written."""
        ...

    def make_treedef(self, node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
        """Return the treedef of a node, or of a leaf; ValueError if its type is not a node."""
        ...


class Leaves(Protocol):
    """How a backend takes trees apart, and what it takes a leaf for."""

    @property
    def trees(self) -> Trees: ...

    def aval_of(self, value: Any) -> Aval:
        """Return the aval of a leaf; NotAnArray if no executable takes such a value."""
        ...

    def remedy(self, value: Any) -> str:
        """Return what to do about a leaf that has no aval."""
        ...


def byte_order_remedy(value: object) -> str | None:
    """Return what to do about an array whose bytes are in another order than this machine's."""
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "isnative", True) or getattr(dtype, "kind", "") not in "iufc":
        return None
    return 'Convert it to the byte order of this machine: x.astype(x.dtype.newbyteorder("=")).'
