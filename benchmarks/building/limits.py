"""What the figures of each part may be at most. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Limit:
    """A bound of the figure `key` of a part."""

    key: str
    at_most: float
    title: str

    def problem(self, row: Mapping[str, Any]) -> str | None:
        """Return that a figure is above its bound; None if it is not."""
        if row[self.key] <= self.at_most:
            return None
        return f"{self.title}: {row[self.key]:.3g}, expected {self.at_most:g} at most"


LIMITS = {
    "noop": (Limit("ratio", 1.5, "pip wheel, nothing to compile / without the hook"),),
    "hits": (
        Limit("hit", 0.03, "Store: a hit / the compilation that it saves"),
        Limit("miss", 0.05, "Store: what a miss adds / the compilation"),
    ),
    "edit": (Limit("compiled", 1.0, "Functions that an edit in one of 50 compiles"),),
    "dask": (
        Limit("two_to_one", 1 / 1.7, "64 units on Dask: 2 workers / 1 worker"),
        Limit("overhead", 0.10, "64 units on Dask: what a unit costs more / a local process"),
    ),
}
