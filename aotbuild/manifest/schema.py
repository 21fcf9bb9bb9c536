"""The JSON schema of the manifest, generated from the model; draft-07, as editors read it."""

from __future__ import annotations

import json
from typing import Any

from aotbuild.manifest.function import FORM
from aotbuild.manifest.model import Manifest

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


# What the model leaves to readers with positions: see specs.py, shardings.py, signatures.py.
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
    return (
        {"allOf": [{"$ref": _REF.format(model=form)}], **tidy}
        if tidy
        else {"$ref": _REF.format(model=form)}
    )
