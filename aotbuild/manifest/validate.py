"""Validate the structure, and go on with whatever of it is sound.

What is wrong is reported, cut out and replaced, so that one mistake does not hide the next one.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from aotbuild.manifest import translate
from aotbuild.manifest.model import Manifest, Origin
from aotbuild.manifest.nodes import Node, plain
from aotbuild.manifest.problems import Problems

Path = tuple[object, ...]
_ROUNDS = 8
_STAND_INS: dict[object, Any] = {
    "version": 1,
    "package": "stand_in",
    "functions": {"stand_in": {"call": "stand_in:call"}},
    "call": "stand_in:call",
}


@dataclass(frozen=True)
class Checked:
    """The model of the sound part, and the paths that were replaced."""

    model: Manifest
    broken: frozenset[Path]

    def broken_in(self, *path: object) -> frozenset[str]:
        """Return the names of the replaced keys directly under a path."""
        return frozenset(
            str(p[-1]) for p in self.broken if p[:-1] == path and isinstance(p[-1], str)
        )


def validate(root: Node, origin: Origin, problems: Problems) -> Checked | None:
    """Return the validated model; None where there is nothing to go on with."""
    data, broken = plain(root), set[Path]()
    for _ in range(_ROUNDS):
        try:
            manifest = Manifest.model_validate(data, context=origin)
            return Checked(manifest, frozenset(broken))
        except ValidationError as err:
            errors = _relevant(err.errors(include_url=False, include_input=False))
        for error in errors:
            if problems.full:
                return None
            translate.report(error, root, problems)
        paths = {_path(error["loc"]) for error in errors}
        if () in paths or ("version",) in paths:
            return None
        for path in paths:
            _replace(data, path)
        broken |= paths
    return None


def _relevant(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the errors worth reporting: of another version, only that it is another one."""
    versions = [e for e in errors if e["loc"] == ("version",) and e["type"] == "aotbuild"]
    return versions or errors


def _path(loc: tuple[int | str, ...]) -> Path:
    """Return what has to go: an option of a function or of the defaults, or a top-level key."""
    if loc[:1] == ("functions",):
        return loc[:2] if loc[2:3] == ("[key]",) else loc[:3]
    return loc[:2] if loc[:1] == ("defaults",) else loc[:1]


def _replace(data: dict[Any, Any], path: Path) -> None:
    *parents, last = path
    for step in parents:
        if not isinstance(data, dict) or step not in data:
            return
        data = data[step]
    data.pop(last, None)
    if last in _STAND_INS and len(parents) in (0, 2):
        data[last] = copy.deepcopy(_STAND_INS[last])
    elif parents == ["functions"] and not data:
        data.update(copy.deepcopy(_STAND_INS["functions"]))
