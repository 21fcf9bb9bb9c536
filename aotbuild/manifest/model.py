"""The manifest: what stands outside the functions, and the JSON schema of all of it.

This one frozen model is what reading returns and what plans, jobs and workers use.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

from aotbuild.format.canonical import canonical_digest
from aotbuild.format.target import HOST
from aotbuild.format.words import did_you_mean, one_of, quote
from aotbuild.manifest import names
from aotbuild.manifest.dims import Many
from aotbuild.manifest.function import Function
from aotbuild.manifest.reading import FORM, Origin
from aotbuild.platforms.base import names as platform_names
from aotbuild.platforms.building import Request, aliases, description
from aotbuild.platforms.options import Model, refuse

TARGET_KINDS = platform_names()


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


_DESCRIBED = {kind: description(kind) for kind in TARGET_KINDS}
TargetMap: type[_OneKey] = create_model(
    "TargetMap",
    __base__=_OneKey,
    __doc__="One target, as a map of one key.",
    **{  # type: ignore[call-overload]
        kind: (found.options | None, Field(default=None, description=found.summary))
        for kind, found in _DESCRIBED.items()
    },
)


def _target_map(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value not in TARGET_KINDS:
        hint = did_you_mean(value, TARGET_KINDS, aliases())
        refuse(f"expected {one_of(TARGET_KINDS)}, found {quote(value)}{hint}")
    example = _DESCRIBED[value].example
    if example is not None:
        refuse(f"{value!r} needs to know which one; write {value}: {example}")
    return {value: {}}


if TYPE_CHECKING:
    TargetItem: TypeAlias = Request
else:
    _ALONE = Literal[tuple(kind for kind in TARGET_KINDS if _DESCRIBED[kind].example is None)]
    TargetItem = Annotated[
        TargetMap,
        BeforeValidator(_target_map, json_schema_input_type=_ALONE | TargetMap),
        AfterValidator(lambda item: item.request),
    ]
DEFAULT_TARGETS: Any = (TargetMap.model_validate({HOST: {}}),)


class ToolchainItem(Model):
    """Exact versions that compile."""

    jax: Annotated[str, AfterValidator(names.jax_version)] = Field(
        description="Exact jax version, such as 0.10.2"
    )
    python: Annotated[str, AfterValidator(names.python_version)] | None = Field(
        default=None, description="Python that runs it, quoted, such as '3.11'"
    )


def _not_empty(value: tuple[Request, ...]) -> tuple[Request, ...]:
    # Pydantic's own minimum counts only valid items.
    if not value:
        refuse("expected at least one entry, found an empty list")
    return value


def _version_one(value: int) -> int:
    if value != 1:
        remedy = "upgrade aotbuild, or write version: 1"
        refuse(f"version {str(value)[:40]} is not known, this is version 1; {remedy}")
    return value


class Manifest(Model):
    """The manifest of aotbuild: which functions to compile, and for what."""

    version: Annotated[int, AfterValidator(_version_one), WithJsonSchema({"const": 1})] = Field(
        description="Version of this format: 1"
    )
    package: Annotated[str, AfterValidator(names.package_name)] = Field(
        description="The import package that receives _aot/"
    )
    runtime: Literal["jax", "jaxlib"] = Field(
        default="jax", description="What the wheel requires where it runs"
    )
    fallback: Literal["none", "portable", "jit"] = Field(
        default="none", description="What a call without a native match does"
    )
    targets: Annotated[Many[TargetItem], AfterValidator(_not_empty)] = Field(
        default=DEFAULT_TARGETS,
        validate_default=True,
        description="What to compile for",
        json_schema_extra={"minItems": 1},
    )
    toolchains: Many[ToolchainItem] = Field(
        default=(), description="What compiles; default: the jax of the build environment"
    )
    functions: Annotated[dict[str, Function], Field(min_length=1)] = Field(
        description="Name to function; the name is an attribute of the Library"
    )
    _origin: Origin = Origin("aot.yaml", "")

    def model_post_init(self, context: Any) -> None:
        """Keep the file that the manifest is read from."""
        self._origin = context or self._origin

    @property
    def file(self) -> str:
        """The name of the file, as it was given."""
        return self._origin.file

    @property
    def digest(self) -> str:
        """The SHA-256 of the file's bytes, in hex."""
        return self._origin.digest

    @property
    def content(self) -> str:
        """The SHA-256 of what it says with all the files that it names, in hex."""
        said = json.loads(self.model_dump_json(exclude={"targets"}))
        # Requests hold what the files of GPUs and of tuning results say.
        return canonical_digest([said, list(map(repr, self.targets))])


# --- the JSON schema, draft-07, as editors read it ----------------------------------------------

DRAFT = "http://json-schema.org/draft-07/schema#"
_TITLE = "aotbuild manifest"
_REF = "#/definitions/{model}"

_SPEC = {"$ref": _REF.format(model="argument_spec")}
_SHARDING = {"$ref": _REF.format(model="sharding")}
_VALUE = {"$ref": _REF.format(model="static_value")}
_NAMES = {"type": "array", "items": {"type": "string"}}


def _closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


# What YAML writes in its own way: see specs.py, shardings.py, dims.py.
_FORMS: dict[str, Any] = {
    "argument_spec": {
        "description": "A spec: an aval such as i32[batch, 64], or a pytree of specs",
        "anyOf": [
            {"type": "string", "pattern": r"^\s*~?[a-z0-9_]+(<[a-z]+>)?\[[^\[\]]*\]\s*$"},
            {"type": "null"},
            {"type": "array", "items": _SPEC},
            _closed(
                ["like"],
                like={"type": "string"},
                dims=_NAMES,
                static=_NAMES,
                like_run={"type": "boolean"},
            ),
            _closed(["dict"], dict={"type": "object", "additionalProperties": _SPEC}),
            _closed(["tuple"], tuple={"type": "array", "items": _SPEC}),
            {
                "type": "object",
                "propertyNames": {"not": {"enum": ["like", "dict", "tuple"]}},
                "additionalProperties": _SPEC,
            },
        ],
    },
    "sharding": {
        "description": "null (replicated), mesh axes per dimension, a tree of those, or like",
        "anyOf": [
            {"type": "null"},
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        {"type": ["string", "null"]},
                        {"type": "array", "items": {"type": "string"}},
                    ]
                },
            },
            _closed(["like"], like={"type": "string"}),
            {"type": "object", "minProperties": 1, "additionalProperties": _SHARDING},
        ],
    },
    "static": {"type": "object", "additionalProperties": _VALUE},
    "static_value": {
        "description": "A scalar, or a list; within a list of values, a list is a tuple",
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            {"type": "array", "items": _VALUE},
        ],
    },
}


def json_schema() -> dict[str, Any]:
    """Return the schema that editors check a manifest against."""
    schema = _tidy(Manifest.model_json_schema(ref_template=_REF))
    definitions = {**schema.pop("$defs"), **_FORMS}
    return {
        "$schema": DRAFT,
        "title": _TITLE,
        **schema,
        "definitions": dict(sorted(definitions.items())),
    }


def schema_text() -> str:
    """Return the schema as the committed file holds it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _tidy(schema: Any) -> Any:
    """Drop generated titles, and put the forms in by reference."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {k: _tidy(v) for k, v in schema.items() if k != "title" or not isinstance(v, str)}
    form = tidy.pop(FORM, None)
    if form is None:
        return tidy
    reference = {"$ref": _REF.format(model=form)}
    return {"allOf": [reference], **tidy} if tidy else reference
