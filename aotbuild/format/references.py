"""References: static data that is compared, by `==`, with that of a tree which the manifest names.

It is for data that cannot be read, such as a C object without readable state. The same node of the
template has it in each process that imports the template. As in jit, `==` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotbuild.format.tree import TreeDef, subtree
from aotbuild.format.values import cut, type_name

_LONGEST = 60


class NotThere(ValueError):
    """A template has no such node, or one of another type."""


def difference(
    treedef: TreeDef, path: Sequence[int], index: int | None, template: TreeDef, at: Sequence[int]
) -> str | None:
    """Return how the static data of a node differs from that of a template's; None if it does not.

    `path` and `at` lead to the node in the two trees; `index` is that of an item of its data, None
    for all of it. NotThere if the template has no such node.
    """
    (kind, data), (there, other) = _data_at(treedef, path), _data_at(template, at)
    if there is not kind:
        msg = f"a {type_name(there)} at {list(at)}, not a {type_name(kind)}"
        raise NotThere(msg)
    return _difference(_item(data, index), _item(other, index))


def _data_at(treedef: TreeDef, path: Sequence[int]) -> tuple[type, Any]:
    try:
        data: tuple[type, Any] | None = subtree(treedef, list(path)).node_data()
    except IndexError:
        data = None
    if data is None:
        msg = f"{cut(str(treedef), 200)}, which has no node at {list(path)}"
        raise NotThere(msg)
    return data


def _item(data: Any, index: int | None) -> Any:
    if index is None:
        return data
    try:
        return data[index]
    except (TypeError, LookupError):
        msg = f"{type_name(type(data))} as static data, without an item {index}"
        raise NotThere(msg) from None


def _difference(found: Any, expected: Any, step: str = "") -> str | None:
    """Return how two values differ; in plain containers, the first part that does."""
    where = f"at {step} " if step else ""
    if found is expected:
        return None
    kinds = type_name(type(expected)), type_name(type(found))
    if type(found) is not type(expected):
        return f"{where}that is a {kinds[0]}, this is a {kinds[1]}"
    try:
        if expected == found:
            return None
    except Exception as err:  # noqa: BLE001 (the user's `==` may raise anything)
        return f"{where}comparing them by == raised {type(err).__name__}: {cut(str(err), _LONGEST)}"
    here, there = _parts(found), _parts(expected)
    if here.keys() == there.keys():
        for key, part in there.items():
            if inner := _difference(here[key], part, f"{step}[{key!r}]"):
                return inner
    return f"{where}that is {_text(expected)}, this is {_text(found)}"


def _parts(value: Any) -> dict[Any, Any]:
    if type(value) in (tuple, list):
        return dict(enumerate(value))
    return value if type(value) is dict else {}


def _text(value: Any) -> str:
    try:
        return cut(repr(value), _LONGEST)
    except Exception:  # noqa: BLE001 (the user's `__repr__` may raise anything)
        return f"a {type_name(type(value))}"
