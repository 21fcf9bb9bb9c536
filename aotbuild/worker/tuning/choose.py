"""Choose a set of options for an executable, by its figures, and say so in its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.version import __version__ as jaxlib_version

from aotbuild.format.record import PROVIDED
from aotbuild.format.target import Target
from aotbuild.platforms.building import compiler, description
from aotbuild.platforms.startup import Choice, Figures, best, choice
from aotbuild.store.entry import Entry

# What XLA calls a fusion that YNN computes, in the text of a module (jaxlib 0.10.2 and 0.12.0.1).
_LIBRARY_FUSION = "__ynn_fusion"


def choose(
    choice: Choice, figures: Sequence[Figures | None] | None, note: str | None
) -> tuple[int, dict[str, Any]]:
    """Return the index of the set to keep, and what the record says of the choice.

    `figures` are None if nothing was measured. `note` is for the user and says why.
    """
    index = best(figures) if figures else None
    if figures and (index is None or figures[0] is None):
        index = None
        note = "startup: tuned: nothing could be measured: compiled as startup: steady"
    flags = choice.sets[index or 0]
    facts: dict[str, Any] = {"mode": choice.mode, "set": flags.name, "options": dict(flags.options)}
    if figures:
        facts["measured"] = [
            {"set": flags.name, **({"dropped": True} if item is None else item.to_json())}
            for flags, item in zip(choice.sets, figures, strict=True)
        ]
    if note:
        facts["note"] = note
    return index or 0, facts


def reason_not_to_measure(entry: Entry, compiled: Any, *, calls_back: bool) -> str | None:
    """Return why an executable is not measured with other sets; None if it is."""
    if calls_back:
        return "startup: tuned: it calls back into Python"
    if _LIBRARY_FUSION not in (compiled.as_text() or ""):
        return "every set of options compiles the same: it has no matrix products for a library"
    others = [n for n, provider in entry.facts["custom_calls"] if provider not in PROVIDED]
    if others:
        return f"startup: tuned: it calls {', '.join(others)}, which only your code registers"
    return None


def startup_of(mode: str, target: Target) -> Choice:
    """Return the sets of options to compile a target with, for a mode of `startup:`."""
    sets = description(target.platform).startup
    obstacle = compiler(target.platform).obstacle(target) if sets else None
    return choice(mode, sets, jaxlib_version, obstacle)
