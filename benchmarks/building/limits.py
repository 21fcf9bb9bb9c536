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
        found = row[self.key]["median"]
        if found <= self.at_most:
            return None
        return f"{self.title}: {found:.3g}, expected {self.at_most:g} at most"


LIMITS = {
    "noop": (
        Limit("ratio", 1.5, "pip wheel, nothing to compile / without the hook"),
        Limit("cpu_ratio", 1.5, "CPU of pip wheel, nothing to compile / without the hook"),
    ),
    "cost": (
        Limit("chat_cpu_ratio", 1.5, "CPU of a build of a chat model / jax.jit"),
        Limit("chat_wall_ratio", 0.9, "A build of a chat model / jax.jit"),
        Limit("small_cpu_ratio", 1.5, "CPU of a build of 16 small functions / jax.jit"),
    ),
    "zoo": (
        Limit("cpu_ratio", 1.5, "CPU of a build of the zoo's slowest / jax.jit"),
        Limit("wall_ratio", 0.9, "A build of the zoo's slowest / jax.jit"),
    ),
}
