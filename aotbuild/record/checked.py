"""Checks of what a recording holds: a file of another program, or a damaged one, is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from aotbuild.format.canonical import is_utf8
from aotbuild.format.tree import HEADS, LEAF, children_of
from aotbuild.format.values import cut

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")
# More than any number of calls or seconds.
_MOST = 1 << 53


def checked(value: _T) -> _T:
    """Return a dataclass whose fields hold what they are declared to; ValueError if they don't."""
    for each in fields(value):
        found = getattr(value, each.name)
        if (is_it := _FORMS.get(str(each.type))) and not is_it(found):
            msg = f"{each.name}: expected {each.type}, found {cut(repr(found), 80)}"
            raise ValueError(msg)
    return value


def checked_text(value: Any) -> str:
    """Return a text that can be written again; TypeError for anything else."""
    if not _is_text(value):
        msg = f"expected text, found {cut(repr(value), 80)}"
        raise TypeError(msg)
    return str(value)


def check_tree(tree: Any) -> None:
    """Raise ValueError or LookupError for what is no tree as `format.tree` describes it."""
    if tree == LEAF:
        return
    if not isinstance(tree, list) or len(tree) < HEADS[tree[0]]:
        msg = f"tree: expected a node, found {cut(repr(tree), 80)}"
        raise ValueError(msg)
    for child in children_of(tree):
        check_tree(child)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_utf8(value)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value))


# What a field of each type accepts, by the text of its annotation.
_FORMS: dict[str, Callable[[Any], bool]] = {
    "str": _is_text,
    "int": _is_count,
    "float": lambda value: type(value) in (int, float) and abs(value) < _MOST,  # no NaN
    "tuple[str, ...]": lambda value: all(map(_is_text, value)),
    "tuple[tuple[str, Any], ...]": lambda value: all(_is_text(name) for name, _ in value),
    "dict[str, Any]": lambda value: _is_map(value),
    "dict[str, str]": lambda value: _is_map(value) and all(map(_is_text, value.values())),
    "dict[str, int]": lambda value: _is_map(value) and all(map(_is_count, value.values())),
}
