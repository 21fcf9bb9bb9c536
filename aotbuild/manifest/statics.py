"""Read static arguments: a name or position, and the hashable values it takes."""

from __future__ import annotations

import math
from collections.abc import Hashable

from aotbuild.manifest.names import is_identifier
from aotbuild.manifest.nodes import ListNode, MapNode, Node, ScalarNode
from aotbuild.manifest.problems import describe
from aotbuild.manifest.source import Source
from aotbuild.spec.words import quote


def read_statics(source: Source) -> dict[str | int, tuple[Hashable, ...]]:
    """Return the values of the static arguments by name or position; report what is wrong."""
    found: dict[str | int, tuple[Hashable, ...]] = {}
    for key, node in source.entries("static"):
        for problem in (_name_problem(source, key.value), _position_problem(source, key.value)):
            if problem:
                source.add(key.mark, ("static",), problem)
        name = key.value if isinstance(key.value, int) else str(key.value)
        found[name] = _values(source, node, ("static", key.value))
    return found


def _name_problem(source: Source, name: object) -> str | None:
    if isinstance(name, int):
        return None
    if not is_identifier(name):
        return f"{quote(name)} is not a Python identifier in ASCII"
    if name in source.names():
        return f"{quote(name)} is an argument with a spec already; static or traced, not both"
    return None


def _position_problem(source: Source, position: object) -> str | None:
    """Return why a position cannot be: it counts the traced and the static positionals."""
    if not isinstance(position, int) or "args" in source.broken:
        return None
    statics = sum(isinstance(key, int) for key in source.model.static)
    total = len(source.positional()) + statics
    if 0 <= position < total:
        return None
    shown = str(position)[:20]
    return (
        f"position {shown} is out of range; {total} positional arguments make it 0 to {total - 1}"
    )


def _values(source: Source, node: Node, steps: tuple[object, ...]) -> tuple[Hashable, ...]:
    if isinstance(node, MapNode):
        source.add(node.mark, steps, f"expected a list of values, found {describe(node)}")
        return ()
    if isinstance(node, ScalarNode):
        return (_value(source, node, steps),)
    if not node.items:
        source.add(node.mark, steps, "expected at least one value, found an empty list")
    values = tuple(_value(source, item, (*steps, i)) for i, item in enumerate(node.items))
    _report_twice(source, node.items, values, steps)
    return values


def _report_twice(
    source: Source, items: tuple[Node, ...], values: tuple[Hashable, ...], steps: tuple[object, ...]
) -> None:
    seen: set[str] = set()
    for index, (item, value) in enumerate(zip(items, values, strict=True)):
        if repr(value) in seen:  # repr tells 1, 1.0 and true apart
            source.add(item.mark, (*steps, index), f"the value {quote(value)} is listed twice")
        seen.add(repr(value))


def _value(source: Source, node: Node, steps: tuple[object, ...]) -> Hashable:
    if isinstance(node, MapNode):
        message = "a static value is hashable: null, a boolean, number, text, or a list of such"
        source.add(node.mark, steps, f"{message}; found {describe(node)}")
        return None
    if isinstance(node, ListNode):
        return tuple(_value(source, item, (*steps, i)) for i, item in enumerate(node.items))
    if isinstance(node.value, float) and math.isnan(node.value):
        source.add(node.mark, steps, "NaN equals no value, so no call could match it")
    return node.value
