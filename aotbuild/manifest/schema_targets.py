"""The manifest's model of targets: one key for each platform, made of what the platforms say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from aotbuild.platforms.base import names
from aotbuild.platforms.building import Request, description
from aotbuild.platforms.options import Model, refuse
from aotbuild.spec.target import HOST
from aotbuild.spec.words import did_you_mean, one_of, quote

TARGET_KINDS = names()


class _OneKey(Model):
    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    @model_validator(mode="after")
    def _exactly_one(self) -> _OneKey:
        given = [kind for kind in TARGET_KINDS if getattr(self, kind) is not None]
        if len(given) != 1 or len(self.model_fields_set) != 1:
            refuse(f"expected a map of one key: {one_of(TARGET_KINDS)}")
        return self

    @property
    def request(self) -> Request:
        """What the one key asks for; no file that it names is read yet."""
        (platform,) = self.model_fields_set
        return Request(platform, getattr(self, platform))


def _field(platform: str) -> Any:
    found = description(platform)
    return found.options | None, Field(default=None, description=found.summary)


TargetMap: type[_OneKey] = create_model(
    "TargetMap",
    __base__=_OneKey,
    __doc__="One target, as a map of one key.",
    **{kind: _field(kind) for kind in TARGET_KINDS},
)


def _target_map(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value not in TARGET_KINDS:
        hint = did_you_mean(value, TARGET_KINDS)
        refuse(f"expected {one_of(TARGET_KINDS)}, found {quote(value)}{hint}")
    example = description(value).example
    if example is not None:
        refuse(f"{value!r} needs to know which one; write {value}: {example}")
    return {value: {}}


if TYPE_CHECKING:
    TargetItem: TypeAlias = Request
else:
    _ALONE = Literal[tuple(kind for kind in TARGET_KINDS if description(kind).example is None)]
    TargetItem = Annotated[
        TargetMap,
        BeforeValidator(_target_map, json_schema_input_type=_ALONE | TargetMap),
        AfterValidator(lambda item: item.request),
    ]
DEFAULT_TARGETS: Any = (TargetMap.model_validate({HOST: {}}),)
