"""Dims: the product of their sizes, or rows of them, and the arguments of a signature.

Argument specs and static values need positions inside, so `load` reads them from the nodes and puts
them in the place of the YAML. Whatever is not read from YAML is validated fully.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    WrapValidator,
)

from aotbuild.format.values import decode, encode
from aotbuild.format.words import quote
from aotbuild.manifest import names
from aotbuild.manifest.specs import ArgSpec
from aotbuild.platforms.options import Model, Size, listed, refuse

T = TypeVar("T")
MAX_SIGNATURES = 100_000
_RANGE = r"[0-9]{1,18}\.\.[0-9]{1,18}"
FORM = "x-aotbuild-form"  # replaced by a $ref in model.py

# The sizes of all dims, for one signature.
Row: TypeAlias = tuple[tuple[str, int], ...]


def form(name: str) -> WithJsonSchema:
    return WithJsonSchema({FORM: name})


def unless_yaml(kind: Any) -> WrapValidator:
    """Validate a field with `kind`, but leave it as it is while YAML is read (see `Origin`)."""
    adapter = TypeAdapter(kind)

    def validate(value: Any, _: object, info: ValidationInfo) -> Any:
        return value if info.context else adapter.validate_python(value)

    return WrapValidator(validate)


def decoded(value: Any, info: ValidationInfo) -> Any:
    # Values of YAML are plain already.
    return value if info.context else decode(value)


def _sizes(value: Any) -> Any:
    """Return the list of sizes that a size, a range such as `1..8`, or a list of them is."""
    each = listed(value)
    ranges = [item for item in each if isinstance(item, str) and re.fullmatch(_RANGE, item)]
    sizes: list[int] = []
    for item in each if ranges else ():
        first, last = map(int, item.split("..")) if item in ranges else (item, item)
        if not isinstance(first, int):
            refuse(f"expected sizes, and ranges of them such as 1..8, found {quote(str(item))}")
        if not first <= last < first + MAX_SIGNATURES:
            most = f"at most {MAX_SIGNATURES:,} sizes"
            refuse(f"expected a range from low to high, {most}, found {item}")
        sizes += range(first, last + 1)
    return sizes if ranges else each


def _dims_form(value: Any) -> str:
    return "\0rows" if isinstance(value, list | tuple) else "\0product"


def _one_key(value: dict[str, Any]) -> dict[str, Any]:
    if len(value) != 1:
        refuse(f"expected a map of one key, name: spec, found {len(value)} keys")
    return value


# A list of YAML or JSON, kept as a tuple.
Many: TypeAlias = Annotated[tuple[T, ...], Field(strict=False)]
Name: TypeAlias = Annotated[str, AfterValidator(names.identifier)]
Spec: TypeAlias = Annotated[ArgSpec, unless_yaml(ArgSpec), form("argument_spec")]
# Name or position to the values to build for. JSON itself keeps neither tuples nor numbers as keys.
StaticMap: TypeAlias = Annotated[
    dict[Any, Any], BeforeValidator(decoded), PlainSerializer(encode), form("static")
]
Range: TypeAlias = Annotated[str, Field(pattern=f"^{_RANGE}$")]
Sizes: TypeAlias = Annotated[
    Many[Size],
    BeforeValidator(_sizes, json_schema_input_type=Size | Range | Many[Size | Range]),
]
Dims: TypeAlias = Annotated[
    Annotated[dict[Name, Sizes], Tag("\0product")]
    | Annotated[Many[dict[Name, Size]], Tag("\0rows")],
    Discriminator(_dims_form),
]


class SignatureSpec(Model):
    """What makes signatures: the arguments, with every size and static value they are called with.

    One of them stands for the product of its dims and static values.
    """

    args: Many[Annotated[dict[Name, Spec], AfterValidator(_one_key)]] = Field(
        default=(), description="Positional arguments in order, each one name: spec"
    )
    kwargs: dict[Name, Spec] = Field(default={}, description="Keyword arguments, name: spec")
    dims: Dims = Field(
        default={},
        description="Sizes of the dims: lists and ranges to multiply out, or a list of rows",
    )
    static: StaticMap = Field(
        default={}, description="Static arguments by name or position, with their values"
    )

    @property
    def positional(self) -> Mapping[str, ArgSpec]:
        """The specs under ``args:`` by name, in order."""
        return {name: spec for arg in self.args for name, spec in arg.items()}

    @property
    def rows(self) -> tuple[Row, ...]:
        """The sizes of all dims, one row a signature: one empty row where there are no dims."""
        if isinstance(self.dims, dict):
            sizes = itertools.product(*self.dims.values())
            return tuple(tuple(zip(self.dims, row, strict=True)) for row in sizes)
        order = tuple(self.dims[0]) if self.dims else ()
        return tuple(tuple((name, row[name]) for name in order) for row in self.dims) or ((),)

    @property
    def count(self) -> int:
        """The number of signatures, without making them."""
        dims, values = self.dims, self.static.values()
        rows = prod(map(len, dims.values())) if isinstance(dims, dict) else len(dims) or 1
        return rows * prod(len(each) if isinstance(each, list | tuple) else 1 for each in values)


SIGNATURE_OPTIONS = tuple(SignatureSpec.model_fields)
