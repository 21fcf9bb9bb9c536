"""Checks of documents against schemas.

jsonschema is imported by the first check and not above: to know more formats, it compiles grammars
for seconds, in each process of a run.
"""

from __future__ import annotations

from typing import Any


def validator(schema: Any) -> Any:
    """Return what validates documents; the schema must be one. It is draft 7 if it names none."""
    from jsonschema import Draft7Validator
    from jsonschema.validators import validator_for

    kind = validator_for(schema, default=Draft7Validator)
    kind.check_schema(schema)
    return kind(schema)
