"""What all parts of the manifest's model are made of."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

MAX_SIZE = 2**63 - 1

Size: TypeAlias = Annotated[int, Field(ge=0, le=MAX_SIZE)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=MAX_SIZE)]


class Model(BaseModel):
    """Strict, frozen, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def listed(value: Any) -> Any:
    """Return a list: one value stands for a list of it."""
    return value if isinstance(value, list) else [value]
