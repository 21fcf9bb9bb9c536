"""What is known of the devices of a target, as the parent tells it to a worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Hardware:
    """The devices of a target; a CPU's level says all, so there everything is empty.

    `kind` is the `device_kind` of jax. `memory` is in bytes, what programs may use of one device.
    `capability` is the CUDA compute capability with its suffix, as `9.0a`. `description` is what
    the platform's compiler is told: a name and a value, in the compiler's own words. `autotune` is
    the text of the tuning results of a real device, if there are any.
    """

    kind: str = ""
    memory: int | None = None
    capability: str | None = None
    description: tuple[tuple[str, Any], ...] = ()
    autotune: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {**vars(self), "description": [list(pair) for pair in self.description]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Hardware:
        """Read what `to_json` wrote."""
        description = tuple((name, _frozen(value)) for name, value in data["description"])
        return cls(**{**data, "description": description})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
