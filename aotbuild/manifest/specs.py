"""Argument specs: their forms, and how dims and static arguments are bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator


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
    LeafSpec | LikeSpec | ListSpec | TupleSpec | DictSpec | NoneSpec,
    Discriminator("form"),
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
    for each in _every(spec):
        if isinstance(each, LikeSpec):
            yield each.ref


def _every(spec: ArgSpec) -> Iterator[ArgSpec]:
    """Yield a spec and those inside it, in order."""
    yield spec
    for each in _inside(spec):
        yield from _every(each)


def _inside(spec: ArgSpec) -> Iterable[ArgSpec]:
    if isinstance(spec, ListSpec | TupleSpec):
        return spec.items
    if isinstance(spec, DictSpec):
        return [item for _, item in spec.items]
    return ()
