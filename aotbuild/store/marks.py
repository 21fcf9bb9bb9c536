"""What differs between two states of what a computation read, by name.

A state is one digest. `Marks` have some digits of the digest of each thing, so that a build can say
which of them is another. Of a variable and of a hidden file they say only whether it is there: it
may be a secret, which a few digits would help to guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aotbuild.format.canonical import canonical_digest
from aotbuild.store.file_digests import MISSING
from aotbuild.store.read_set import ROOT_FOLDER, WORKING_FOLDER, ReadSet

# The marks of each kind of names, in their order, without anything between them.
Marks = dict[str, str]
_ALLOWED = ("readable", "writable", "executable")
_CODE_AND_FILES = (
    *("modules", "files", "listings", "looked", *_ALLOWED),
    *("sizes", "links", "searched"),
)
_DISTRIBUTIONS = "distributions"
_WIDTH = 4
_NOTHING, _SET = "none", "some"
_SHOWN = 3
_HIDDEN = re.compile(r"[:/]\.")


def marks_of(rows: Mapping[str, list[Any]]) -> Marks:
    """Return the marks of what `World.rows` gives."""
    found = {kind: "".join(_mark(kind, row) for row in each) for kind, each in rows.items()}
    if rows[_DISTRIBUTIONS]:
        found[_DISTRIBUTIONS] = _digits(rows[_DISTRIBUTIONS])
    return {kind: marks for kind, marks in found.items() if marks}


def differences(
    names: Iterable[ReadSet], before: Iterable[Marks], now: Iterable[Marks]
) -> Iterator[str]:
    """Yield what is not as it was, for people; variables last, which are unset most easily."""
    sets = [*zip(names, before, now, strict=True)]
    for kinds in (_CODE_AND_FILES, ("variables",)):
        for each in sets:
            yield from _of_kinds(kinds, *each)
    if any(old.get(_DISTRIBUTIONS) != new.get(_DISTRIBUTIONS) for _, old, new in sets):
        yield "other distributions are installed"


def _of_kinds(kinds: Iterable[str], names: ReadSet, before: Marks, now: Marks) -> Iterator[str]:
    for kind in kinds:
        read = getattr(names, kind)
        old, new = before.get(kind, ""), now.get(kind, "")
        if len(old) != len(new) or len(new) != _WIDTH * len(read):
            continue
        for place, name in enumerate(read):
            at = slice(_WIDTH * place, _WIDTH * (place + 1))
            if old[at] != new[at]:
                yield _difference(kind, name, old[at], new[at])


def values_differ(names: Iterable[ReadSet], now: Iterable[Marks]) -> str:
    """Return what differs if no mark does: a variable that is set, or a hidden file."""
    read = [
        _shown(kind, name)
        for each, marks in zip(names, now, strict=True)
        for kind in ("variables", "files")
        for place, name in enumerate(getattr(each, kind))
        if marks.get(kind, "")[_WIDTH * place :].startswith(_SET)
    ]
    if not read:
        return "something that was read changed"
    if len(read) == 1:
        return f"{read[0]} changed"
    more = [f"{len(read) - _SHOWN} more"] if len(read) > _SHOWN else []
    return f"one of these changed: {', '.join([*read[:_SHOWN], *more])}"


def _mark(kind: str, row: list[Any]) -> str:
    name, *found = row
    if kind == "variables":
        # A variable may be set to nothing.
        return _NOTHING if found in ([None], [[]]) else _SET
    if found[0] in (MISSING, "", None):
        return _NOTHING
    if kind == "files" and _HIDDEN.search(name):
        return _SET
    # Of a module both count: its form, and what is in its file.
    return _digits(found)


def _digits(found: Any) -> str:
    return canonical_digest(found)[:_WIDTH]


def _difference(kind: str, name: str, before: str, now: str) -> str:
    if (kind, name) == ("links", WORKING_FOLDER):
        return "the working folder is another one"
    if (kind, name) == ("links", ROOT_FOLDER):
        return "the project is in another folder, and something that was read says where it was"
    name = _shown(kind, name)
    if kind == "listings":
        return f"the names in {name} changed"
    if kind == "searched":
        return f"the modules in {name} changed"
    if kind == "links":
        return f"{name} leads elsewhere"
    if kind in _ALLOWED and _NOTHING not in (before, now):
        return f"whether {name} is {kind} changed"
    is_variable = kind == "variables"
    if now == _NOTHING:
        return f"{name} is not {'set' if is_variable else 'there'}"
    if before == _NOTHING:
        return f"{name} is {'set' if is_variable else 'there'} now"
    return f"{name} changed"


def _shown(kind: str, name: str) -> str:
    if kind in ("modules", "variables"):
        return name
    label, _, place = name.partition(":")
    return f"~/{place}" if label == "home" else place or name
