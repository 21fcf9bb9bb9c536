"""What the options of a platform are made of: the base of pydantic models, and shared fields."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from aotbuild.format.target import MAX_DEVICES

MAX_SIZE = 2**63 - 1
CUSTOM = "aotbuild"  # the type of an error whose message is shown as it is

Size: TypeAlias = Annotated[int, Field(ge=0, le=MAX_SIZE)]
Devices: TypeAlias = Annotated[int, Field(ge=1, le=MAX_DEVICES)]
Processes: TypeAlias = Annotated[int, Field(ge=1, le=MAX_DEVICES)]


class Model(BaseModel):
    """A model that is strict, frozen, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def listed(value: Any) -> Any:
    """Return a list: one value stands for a list of it."""
    return value if isinstance(value, list) else [value]


def refuse(message: str) -> NoReturn:
    """Raise the error that carries a message through pydantic to the user."""
    raise PydanticCustomError(CUSTOM, "{message}", {"message": message})
