"""Fields of the model that YAML writes in their own way: specs, shardings, static values.

A reader finds every fault inside such a field, and puts something valid in the place of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError, ValidationInfo, WithJsonSchema, WrapValidator
from pydantic_core import InitErrorDetails, PydanticCustomError

from aotbuild.manifest.problems import Steps

FORM = "x-aotbuild-form"  # replaced by a $ref in model.py
INSIDE = "aotbuild-inside"  # the type of an error inside of such a field
KEY = "[key]"  # what pydantic appends where the key is wrong, not the value


@dataclass(frozen=True)
class Origin:
    """The file a manifest is read from: its name, and the SHA-256 of its bytes in hex.

    It is the context of a validation of YAML. With `again`, the faults inside of fields have been
    reported, and what stands in their places is taken.
    """

    file: str
    digest: str
    again: bool = False


class Fault(Protocol):
    """Notes a fault at a value, or at the key that it has in a map."""

    def __call__(self, steps: Steps, message: str, *, key: bool = False) -> None: ...


def form(name: str) -> WithJsonSchema:
    return WithJsonSchema({FORM: name})


def from_yaml(read: Callable[[Any, Fault], Any], kind: Any) -> WrapValidator:
    """Read a field of YAML with `read`; validate whatever else comes with `kind`."""
    adapter = TypeAdapter(kind)

    def validate(value: Any, _: object, info: ValidationInfo) -> Any:
        if info.context is None:
            return adapter.validate_python(value)
        faults: list[InitErrorDetails] = []

        def fault(steps: Steps, message: str, *, key: bool = False) -> None:
            error = PydanticCustomError(INSIDE, "{message}", {"message": message})
            loc = (*steps, KEY) if key else steps
            faults.append(InitErrorDetails(type=error, loc=loc, input=None))

        found = read(value, fault)
        if faults and not info.context.again:
            title = "YAML"
            raise ValidationError.from_exception_data(title, faults)
        return found

    return WrapValidator(validate)
