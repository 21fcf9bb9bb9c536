"""Validate the structure of a manifest, and say where it is wrong.

Pydantic stops at a broken value. So what is wrong is reported, cut out and replaced by a stand-in,
and the rest is validated again: one mistake does not hide the next one.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from aotbuild.format.words import did_you_mean, one_of, quote
from aotbuild.manifest.model import Manifest
from aotbuild.manifest.problems import Document, Problems, Steps
from aotbuild.manifest.reading import INSIDE, KEY, Origin
from aotbuild.platforms.building import aliases
from aotbuild.platforms.options import CUSTOM

_ROUNDS = 8
_STAND_INS: dict[object, Any] = {
    "version": 1,
    "package": "stand_in",
    "functions": {"stand_in": {"call": "stand_in:call"}},
    "call": "stand_in:call",
}
_LIMITS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_OWN = (CUSTOM, INSIDE)
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
    broken: frozenset[Steps]


def validate(data: dict[Any, Any], origin: Origin, problems: Problems) -> Checked | None:
    """Return the validated model; None where there is nothing to go on with."""
    data, broken = copy.deepcopy(data), set[Steps]()
    for _ in range(_ROUNDS):
        try:
            return Checked(Manifest.model_validate(data, context=origin), frozenset(broken))
        except ValidationError as err:
            errors = _relevant(err.errors(include_url=False, include_input=False))
        for error in errors:
            if problems.full:
                return None
            report(error, problems)
        paths = {_option(error["loc"]) for error in errors if error["type"] != INSIDE}
        if () in paths or ("version",) in paths:
            return None
        for error in errors:
            if error["type"] != INSIDE:
                _replace(data, error["loc"])
        inside = {_option(error["loc"]) for error in errors if error["type"] == INSIDE}
        specs = {(*path, "specs") for *path, option in inside if option in ("args", "kwargs")}
        broken |= paths | specs
        origin = replace(origin, again=True)
    return None


def _relevant(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors to report: in a manifest of another version, only the version is wrong."""
    versions = [e for e in errors if e["loc"] == ("version",) and e["type"] == CUSTOM]
    return versions or errors


def _option(loc: Steps) -> Steps:
    """Return what an error makes unusable: an option of a function, or a top-level key."""
    if loc[:1] == ("functions",):
        if loc[2:3] == ("signatures",):
            return loc[:5]
        return loc[:2] if loc[2:3] == (KEY,) else loc[:3]
    return loc[:1]


def _replace(data: Any, loc: Steps) -> None:
    """Cut out the option, or of arguments only the one that is wrong."""
    path = _option(loc)
    if path[-1] in ("args", "kwargs"):
        path = loc[: len(path) + 1]
    *parents, last = path
    for step in parents:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(data, list):
        data[int(last)] = {"stand_in": None} if parents[-1] == "args" else {}
        return
    data.pop(last, None)
    if last in _STAND_INS and len(parents) in (0, 2):
        data[last] = copy.deepcopy(_STAND_INS[last])
    elif parents == ["functions"] and not data:
        data.update(copy.deepcopy(_STAND_INS["functions"]))


def report(error: ErrorDetails, problems: Problems, model: type[BaseModel] = Manifest) -> None:
    """Report an error of pydantic in our words, where the YAML has what it is about.

    `model` is what the file was validated with.
    """
    loc, kind = error["loc"], error["type"]
    last = loc[-1] if loc else None
    if kind in ("extra_forbidden", "invalid_key"):
        problems.report(loc, _unknown_key(last, loc[:-1], model), key=True)
    elif kind == "missing":
        problems.report(loc, _missing(last, loc[:-1], model))
    elif last == KEY:
        problems.report(loc, _wrong_key(error, loc[-2]), key=True)
    else:
        problems.report(loc, _wrong_value(error, problems.document))


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
    if error["type"] in _OWN:
        return error["msg"]
    return f'expected a name, found {quote(key)}; put it in quotes if it is one: "{key}"'


def _wrong_value(error: ErrorDetails, document: Document) -> str:
    kind, context = error["type"], error.get("ctx", {})
    steps = document.reach(error["loc"])
    value, found = document.value(steps), f"found {document.describe(steps)}"
    if kind in _OWN:
        return error["msg"]
    if kind == "literal_error":
        known = re.findall(r"'([^']*)'", str(context["expected"]))
        return f"expected {one_of(known)}, {found}{did_you_mean(value, known, aliases())}"
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        limit = context[name]
        shown = f"{limit:g}" if isinstance(limit, float) else limit
        return f"expected {words} {shown}, {found}"
    if kind == "too_short":
        return f"expected at least one entry, {found}"
    if kind not in _EXPECTED:
        return f"{document.describe(steps)} is not allowed here"
    is_number = kind == "string_type" and isinstance(value, bool | int | float)
    quoting = f'; quote it: "{document.places[steps].text[:40]}"' if is_number else ""
    return f"expected {_EXPECTED[kind]}, {found}{quoting}"


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
