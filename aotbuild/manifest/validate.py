"""Validate the structure of a manifest, and say where it is wrong.

Pydantic stops at a broken value. So what is wrong is reported, cut out and replaced by a stand-in,
and the rest is validated again: one mistake does not hide the next one.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from aotbuild.format.words import did_you_mean, one_of, quote
from aotbuild.manifest.model import Manifest, Origin
from aotbuild.manifest.nodes import (
    Node,
    Problems,
    ScalarNode,
    child,
    describe,
    dotted,
    key_mark,
    plain,
    walk,
)
from aotbuild.platforms.building import aliases
from aotbuild.platforms.options import CUSTOM

Path = tuple[object, ...]
_ROUNDS = 8
_STAND_INS: dict[object, Any] = {
    "version": 1,
    "package": "stand_in",
    "functions": {"stand_in": {"call": "stand_in:call"}},
    "call": "stand_in:call",
}
_KEY = "[key]"  # what pydantic appends where the key is wrong, not the value
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
}


@dataclass(frozen=True)
class Checked:
    """A model without what was wrong, and the paths that were cut out or replaced."""

    model: Manifest
    broken: frozenset[Path]

    def broken_in(self, *path: object) -> frozenset[str]:
        """Return the names of the replaced keys directly under a path."""
        return frozenset(
            str(p[-1]) for p in self.broken if p[:-1] == path and isinstance(p[-1], str | int)
        )


def validate(root: Node, origin: Origin, problems: Problems) -> Checked | None:
    """Return the validated model; None where there is nothing to go on with."""
    data, broken = plain(root), set[Path]()
    for _ in range(_ROUNDS):
        try:
            return Checked(Manifest.model_validate(data, context=origin), frozenset(broken))
        except ValidationError as err:
            errors = _relevant(err.errors(include_url=False, include_input=False))
        for error in errors:
            if problems.full:
                return None
            report(error, root, problems)
        paths = {_path(error["loc"]) for error in errors}
        if () in paths or ("version",) in paths:
            return None
        for path in paths:
            _replace(data, path)
        broken |= paths
    return None


def _relevant(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors to report: in a manifest of another version, only the version is wrong."""
    versions = [e for e in errors if e["loc"] == ("version",) and e["type"] == CUSTOM]
    return versions or errors


def _path(loc: tuple[int | str, ...]) -> Path:
    """Return what to cut out: an option of a function, or a top-level key."""
    if loc[:1] == ("functions",):
        if loc[2:3] == ("signatures",):
            return loc[:5]
        return loc[:2] if loc[2:3] == ("[key]",) else loc[:3]
    return loc[:1]


def _replace(data: dict[Any, Any], path: Path) -> None:
    *parents, last = path
    for step in parents:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(data, list):
        data[last] = {}
        return
    data.pop(last, None)
    if last in _STAND_INS and len(parents) in (0, 2):
        data[last] = copy.deepcopy(_STAND_INS[last])
    elif parents == ["functions"] and not data:
        data.update(copy.deepcopy(_STAND_INS["functions"]))


def report(
    error: ErrorDetails, root: Node, problems: Problems, model: type[BaseModel] = Manifest
) -> None:
    """Report an error of pydantic in our words, where the YAML has what it is about.

    `model` is what the file was validated with.
    """
    steps, node = _place(error["loc"], root)
    kind, last = error["type"], error["loc"][-1] if error["loc"] else None
    if kind in ("extra_forbidden", "invalid_key"):
        parent = steps[:-1]
        mark = key_mark(walk(root, parent), last)
        problems.add(mark, dotted(parent), _unknown_key(last, error["loc"][:-1], model))
    elif kind == "missing":
        problems.add(node.mark, dotted(steps), _missing(last, error["loc"][:-1], model))
    elif last == _KEY and steps:
        mark = key_mark(walk(root, steps[:-1]), steps[-1])
        problems.add(mark, dotted(steps[:-1]), _wrong_key(error, steps[-1]))
    else:
        problems.add(node.mark, dotted(steps), _wrong_value(error, node))


def _place(loc: tuple[int | str, ...], root: Node) -> tuple[tuple[int | str, ...], Node]:
    """Return the steps of a location that exist in the YAML, and the node they lead to.

    Other steps are pydantic's own: union tags, the key marker, the index of a lone value.
    """
    steps: tuple[int | str, ...] = ()
    node = root
    for step in loc:
        inner = child(node, step)
        if inner is not None:
            steps, node = (*steps, step), inner
    return steps, node


def _unknown_key(key: object, loc: tuple[int | str, ...], root: type[BaseModel]) -> str:
    model = _model_at(loc, root)
    known = list(model.model_fields) if model else []
    hint = did_you_mean(key, known, aliases()) or f"; known: {', '.join(known)}"
    return f"unknown key {quote(key)}{hint}"


def _missing(key: object, loc: tuple[int | str, ...], root: type[BaseModel]) -> str:
    model = _model_at(loc, root)
    field = model.model_fields.get(str(key)) if model else None
    meaning = f" ({field.description})" if field else ""
    return f"the key {quote(key)} is missing{meaning}"


def _wrong_key(error: ErrorDetails, key: object) -> str:
    if error["type"] == CUSTOM:
        return error["msg"]
    return f'expected a name, found {quote(key)}; put it in quotes if it is one: "{key}"'


def _wrong_value(error: ErrorDetails, node: Node) -> str:
    kind, context = error["type"], error.get("ctx", {})
    found = f"found {describe(node)}"
    if kind == CUSTOM:
        return error["msg"]
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", str(context["expected"]))
        word = node.value if isinstance(node, ScalarNode) else None
        return f"expected {one_of(known)}, {found}{did_you_mean(word, known, aliases())}"
    if kind == "greater_than":
        return f"expected more than {context['gt']}, {found}"
    if kind == "greater_than_equal":
        return f"expected at least {context['ge']}, {found}"
    if kind == "less_than_equal":
        return f"expected at most {context['le']}, {found}"
    if kind == "too_short":
        return f"expected at least one entry, {found}"
    if kind not in _EXPECTED:
        return f"{describe(node)} is not allowed here"
    return f"expected {_EXPECTED[kind]}, {found}{_quoting(kind, node)}"


def _quoting(kind: str, node: Node) -> str:
    number = isinstance(node, ScalarNode) and isinstance(node.value, bool | int | float)
    if kind != "string_type" or not number or not isinstance(node, ScalarNode):
        return ""
    return f'; quote it: "{node.text[:40]}"'


def _model_at(loc: tuple[int | str, ...], root: type[BaseModel]) -> type[BaseModel] | None:
    """Return the model that a location lies in, by the annotations along the way."""
    current: Any = root
    for step in loc:
        if isinstance(current, type) and issubclass(current, BaseModel):
            current = current.model_fields[str(step)].annotation
        else:
            current = [None, *(arg for arg in get_args(current) if arg is not ...)][-1]
        current = _bare(current)
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _bare(annotation: Any) -> Any:
    """Strip Annotated, and None from an optional."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    options = [arg for arg in get_args(annotation) if arg is not type(None)]
    if type(None) in get_args(annotation) and len(options) == 1:
        return _bare(options[0])
    return annotation
