"""What kinds of entries a folder of the store has."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from aotbuild.format.files import open_regular
from aotbuild.store.contents import Item

# Kinds that do not say so, by a fact that only they have.
_BY_FACT = {
    "requires": "executable",
    "executable": "stages",
    "finite": "golden",
    "padding": "padding",
    "seconds": "time",
    "numbers": "split",
}
OTHER = "other"
# Entries are read by others, too: of a damaged one, no more than this.
_MOST_FACTS = 1 << 24
_MOST_HEAD = 128


def count_kinds(entries: Iterable[Item]) -> dict[str, dict[str, int]]:
    """Return how many entries each kind has, and their size in bytes; the largest first."""
    found: dict[str, dict[str, int]] = {}
    for entry in entries:
        row = found.setdefault(kind_of(entry.path), {"entries": 0, "size": 0})
        row["entries"] += 1
        row["size"] += entry.size
    return dict(sorted(found.items(), key=lambda pair: (-pair[1]["size"], pair[0])))


def kind_of(path: Path) -> str:
    """Return what the facts of an entry's file say that it is, without checking its bytes."""
    try:
        facts = _facts(path)
    except (OSError, ValueError, RecursionError):
        return OTHER
    if isinstance(facts, dict):
        if isinstance(facts.get("entry"), str):
            return str(facts["entry"])
        return next((kind for fact, kind in _BY_FACT.items() if fact in facts), OTHER)
    return OTHER


def _facts(path: Path) -> object:
    """Return the facts of an entry, without reading or checking its bytes."""
    with open_regular(path) as file:
        for _ in range(_MOST_HEAD):
            if file.readline(_MOST_FACTS) == b"\n":
                return json.loads(file.readline(_MOST_FACTS))
    return None
