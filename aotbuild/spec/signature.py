"""Signatures: what a call must look like for one executable to serve it."""

from __future__ import annotations

from typing import Any

from aotbuild.frozen import dataclass
from aotbuild.spec.aval import Aval
from aotbuild.spec.canonical import canonical_json, sha256_hex
from aotbuild.spec.tree import Tree
from aotbuild.spec.values import shown

KEY_DIGITS = 32


@dataclass(frozen=True)
class Signature:
    """Avals of all leaves, the tree around them, and the values of the static arguments.

    `tree` describes `(args, kwargs)` without the static arguments; `leaves` are in its order.
    `statics` holds (parameter name, encoded value) sorted by name; see `spec.values`.
    """

    tree: Tree
    leaves: tuple[Aval, ...]
    statics: tuple[tuple[str, Any], ...] = ()

    def key(self) -> str:
        """Return the identity of this signature: 32 hexadecimal digits."""
        return sha256_hex(canonical_json(self.to_json()))[:KEY_DIGITS]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {
            "tree": self.tree,
            "leaves": [str(aval) for aval in self.leaves],
            "statics": [list(item) for item in self.statics],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Signature:
        """Read what `to_json` wrote."""
        statics = tuple((name, value) for name, value in data["statics"])
        return cls(data["tree"], tuple(map(Aval.parse, data["leaves"])), statics)

    def describe_statics(self) -> str:
        """Return the static arguments for people, as `causal=True, k=3`."""
        return ", ".join(f"{name}={shown(value)}" for name, value in self.statics)
