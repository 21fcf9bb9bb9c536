"""Argument specs: their forms, how they are read, and how dims and static values are bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator

from aotbuild.format.aval import parse_spec
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.names import is_identifier, reference_problem
from aotbuild.manifest.problems import Steps, describe
from aotbuild.manifest.reading import Fault

LIKE_KEYS = ("like", "dims", "static", "like_run")
# Each of these is the only key of its map.
_ALONE = ("dict", "tuple")
RESERVED = ("like", *_ALONE)
_WRAP = "a dict pytree with such keys is written {dict: {…}}"
_LONGEST = 200


@dataclass(frozen=True)
class LeafSpec:
    """One array: sizes or dim names, and the full dtype name."""

    shape: tuple[int | str, ...]
    dtype: str
    weak_type: bool = False
    form: Literal["leaf"] = field(default="leaf", repr=False)


@dataclass(frozen=True)
class LikeSpec:
    """The tree of avals that ``module:attr`` is, or returns for these dims and static arguments.

    `values` has theirs, by name. With `run`, the function is not traced but run.
    """

    ref: str
    dims: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    run: bool = False
    values: tuple[tuple[str, Any], ...] = ()
    form: Literal["like"] = field(default="like", repr=False)


@dataclass(frozen=True)
class ListSpec:
    """A list pytree."""

    items: tuple[ArgSpec, ...]
    form: Literal["list"] = field(default="list", repr=False)


@dataclass(frozen=True)
class TupleSpec:
    """A tuple pytree."""

    items: tuple[ArgSpec, ...]
    form: Literal["tuple"] = field(default="tuple", repr=False)


@dataclass(frozen=True)
class DictSpec:
    """A dict pytree with text keys, in the order of the manifest."""

    items: tuple[tuple[str, ArgSpec], ...]
    form: Literal["dict"] = field(default="dict", repr=False)


@dataclass(frozen=True)
class NoneSpec:
    """``None``: a subtree without leaves."""

    form: Literal["none"] = field(default="none", repr=False)


ArgSpec: TypeAlias = Annotated[
    LeafSpec | LikeSpec | ListSpec | TupleSpec | DictSpec | NoneSpec, Discriminator("form")
]


def bind_values(
    spec: ArgSpec, row: Mapping[str, int | str], statics: Mapping[str, Any] | None = None
) -> ArgSpec:
    """Return the spec with the dims of a row put in; `LikeSpec` gets dims and statics as `values`.

    Names that the row lacks stay names.
    """
    given = {**row, **(statics or {})}
    match spec:
        case LeafSpec():
            return _sized(spec, row)
        case LikeSpec(_, dims, static):
            names = (name for name in (*dims, *static) if name in given)
            return replace(spec, values=tuple((name, given[name]) for name in names))
        case ListSpec(items) | TupleSpec(items):
            return replace(spec, items=tuple(bind_values(item, row, statics) for item in items))
        case DictSpec(items):
            return DictSpec(tuple((key, bind_values(item, row, statics)) for key, item in items))
        case NoneSpec():
            return spec


def _sized(leaf: LeafSpec, row: Mapping[str, int | str]) -> LeafSpec:
    sizes = tuple(row.get(dim, dim) if isinstance(dim, str) else dim for dim in leaf.shape)
    return replace(leaf, shape=sizes)


def imported_names(spec: ArgSpec) -> Iterator[str]:
    """Yield what making the trees in a spec imports, as ``module:name``."""
    for _, each in parts_of(spec):
        if isinstance(each, LikeSpec):
            yield each.ref


def parts_of(spec: ArgSpec, steps: Steps = ()) -> Iterator[tuple[Steps, ArgSpec]]:
    """Yield a spec and those inside it, in order, with the steps to each.

    A dict is written with or without the key `dict`; its step is there in both.
    """
    yield steps, spec
    if isinstance(spec, ListSpec | TupleSpec):
        form = (spec.form,) if isinstance(spec, TupleSpec) else ()
        for index, item in enumerate(spec.items):
            yield from parts_of(item, (*steps, *form, index))
    elif isinstance(spec, DictSpec):
        for key, item in spec.items:
            yield from parts_of(item, (*steps, spec.form, key))


def read_spec(value: Any, fault: Fault, steps: Steps = ()) -> ArgSpec:
    """Return the spec that YAML says; a fault leaves a `NoneSpec` in its place."""
    if isinstance(value, list):
        return ListSpec(_items(value, fault, steps))
    if isinstance(value, dict):
        return _map(value, fault, steps)
    if isinstance(value, str):
        return _text(value, fault, steps)
    if value is not None:
        fault(steps, f"expected a spec such as 'f32[8,128]', found {describe(value)}")
    return NoneSpec()


def _items(values: list[Any], fault: Fault, steps: Steps) -> tuple[ArgSpec, ...]:
    return tuple(read_spec(item, fault, (*steps, i)) for i, item in enumerate(values))


def _text(text: str, fault: Fault, steps: Steps) -> ArgSpec:
    if len(text) > _LONGEST:
        fault(steps, f"a spec of {len(text)} characters; too long")
        return NoneSpec()
    try:
        return LeafSpec(*parse_spec(text))
    except ValueError as err:
        fault(steps, str(err))
        return NoneSpec()


def _map(value: dict[Any, Any], fault: Fault, steps: Steps) -> ArgSpec:
    if "like" in value:
        return _like(value, fault, steps)
    taken = [key for key in _ALONE if key in value]
    if not taken:
        return _dict(value, fault, steps)
    if len(value) > 1:
        fault(steps, f"{' and '.join(map(repr, taken))} must be the only key; {_WRAP}")
        return NoneSpec()
    inner, steps = value[taken[0]], (*steps, taken[0])
    if taken == ["dict"] and isinstance(inner, dict):
        return _dict(inner, fault, steps)
    if taken == ["tuple"] and isinstance(inner, list):
        return TupleSpec(_items(inner, fault, steps))
    kind = "map" if taken == ["dict"] else "list"
    fault(steps, f"expected a {kind} of specs, found {describe(inner)}")
    return NoneSpec()


def _dict(value: dict[Any, Any], fault: Fault, steps: Steps) -> DictSpec:
    for key in value:
        if not isinstance(key, str):
            message = f"the key of a dict pytree is text, found {describe(key)}; quote it"
            fault((*steps, key), message, key=True)
    items = value.items()
    return DictSpec(tuple((str(k), read_spec(item, fault, (*steps, k))) for k, item in items))


def _like(value: dict[Any, Any], fault: Fault, steps: Steps) -> ArgSpec:
    for key in value:
        if key not in LIKE_KEYS:
            hint = did_you_mean(key, LIKE_KEYS) or f"; {_WRAP}"
            fault((*steps, key), f"unknown key {quote(key)} beside 'like'{hint}", key=True)
            return NoneSpec()
    ref, run = value["like"], value.get("like_run", False)
    if problem := reference_problem(ref):
        fault((*steps, "like"), problem)
        return NoneSpec()
    dims = _names(value, "dims", "dim names, such as [batch]", fault, steps)
    static = _names(value, "static", "static argument names, such as [causal]", fault, steps)
    for name in sorted({*dims} & {*static}):
        message = f"{quote(name)} is a dim and a static argument; the function gets it by name"
        fault(steps, message)
    if not isinstance(run, bool):
        fault((*steps, "like_run"), f"expected true or false, found {describe(run)}")
    return LikeSpec(ref, dims, static, run is True)


def _names(
    value: dict[Any, Any], key: str, expected: str, fault: Fault, steps: Steps
) -> tuple[str, ...]:
    names = value.get(key, [])
    if not isinstance(names, list) or not all(map(is_identifier, names)):
        fault((*steps, key), f"expected a list of {expected}")
        return ()
    if len(set(names)) != len(names):
        fault((*steps, key), f"a {expected.partition(' name')[0]} is listed twice")
    return tuple(names)
