"""What makes signatures: arguments, dims (a product of sizes, or rows), and static values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Mapping
from math import isnan, prod
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PlainSerializer, Tag

from aotbuild.format.values import decode, encode
from aotbuild.format.words import quote
from aotbuild.manifest import names
from aotbuild.manifest.problems import Steps, describe
from aotbuild.manifest.reading import Fault, form, from_yaml
from aotbuild.manifest.specs import ArgSpec, read_spec
from aotbuild.platforms.options import Model, Size, listed, refuse

T = TypeVar("T")
MAX_SIGNATURES = 100_000
_RANGE = r"[0-9]{1,18}\.\.[0-9]{1,18}"

# The sizes of all dims, for one signature.
Row: TypeAlias = tuple[tuple[str, int], ...]


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


def _read_statics(value: Any, fault: Fault) -> dict[Any, tuple[Hashable, ...]]:
    """Return the values of the static arguments by name or position."""
    if not isinstance(value, dict):
        fault((), f"expected a map, found {describe(value)}")
        return {}
    return {name: _values(given, fault, (name,)) for name, given in value.items()}


def _values(given: Any, fault: Fault, steps: Steps) -> tuple[Hashable, ...]:
    if isinstance(given, dict):
        remedy = "to give an object, let `call` name a functools.partial that has it"
        fault(steps, f"expected a list of values, found {describe(given)}; {remedy}")
        return ()
    if not isinstance(given, list):
        return (_value(given, fault, steps),)
    if not given:
        fault(steps, "expected at least one value, found an empty list")
    values = tuple(_value(item, fault, (*steps, i)) for i, item in enumerate(given))
    seen: set[str] = set()
    for index, value in enumerate(values):
        if repr(value) in seen:  # repr tells 1, 1.0 and true apart
            fault((*steps, index), f"the value {quote(value)} is listed twice")
        seen.add(repr(value))
    return values


def _value(item: Any, fault: Fault, steps: Steps) -> Hashable:
    if isinstance(item, list):
        return tuple(_value(each, fault, (*steps, i)) for i, each in enumerate(item))
    if isinstance(item, dict):
        message = "a static value is hashable: null, a boolean, number, text, or a list of such"
        fault(steps, f"{message}; found {describe(item)}")
        return None
    if isinstance(item, float) and isnan(item):
        fault(steps, "NaN equals no value, so no call could match it")
    value: Hashable = item
    return value


# A list of YAML or JSON, kept as a tuple.
Many: TypeAlias = Annotated[tuple[T, ...], Field(strict=False)]
Name: TypeAlias = Annotated[str, AfterValidator(names.identifier)]
Spec: TypeAlias = Annotated[ArgSpec, from_yaml(read_spec, ArgSpec), form("argument_spec")]
# Name or position to the values to build for. JSON itself keeps neither tuples nor numbers as keys.
StaticMap: TypeAlias = Annotated[
    dict[Any, Any],
    from_yaml(_read_statics, Annotated[dict[Any, Any], BeforeValidator(decode)]),
    PlainSerializer(encode),
    form("static"),
]
Range: TypeAlias = Annotated[str, Field(pattern=f"^{_RANGE}$")]
Sizes: TypeAlias = Annotated[
    Many[Size], BeforeValidator(_sizes, json_schema_input_type=Size | Range | Many[Size | Range])
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
