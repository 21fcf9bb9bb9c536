"""Choose between sets of options for one executable, by measuring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aotbuild.build.startup import Choice, FlagSet, best
from aotbuild.build.store import Entry
from aotbuild.build.worker.startup.measure import Measurer

# Compiles with a set; returns the entry of the executable, and jax's own `Compiled`.
CompileWith = Callable[[FlagSet], tuple[Entry, Any]]
# What XLA calls a fusion that YNN computes, in the text of a module (jaxlib 0.10.2 and 0.12.0.1).
_LIBRARY_FUSION = "__ynn_fusion"
# Their native functions are there in every process with jax.
_KNOWN_PROVIDERS = ("jax", "lapack", "xla")


def compile_chosen(
    choice: Choice,
    compile_with: CompileWith,
    measurer: Measurer,
    inputs: Callable[[], list[Any]],
    donated: tuple[int, ...],
) -> tuple[Entry, Any]:
    """Compile with the set of a choice, or with the best of them; its facts say which, and why."""
    made = compile_with(choice.sets[0])
    if choice.mode == "steady":
        return made
    if len(choice.sets) == 1:
        return _told(choice, choice.sets[0], made, choice.note)
    reason = _nothing_to_measure(*made)
    if reason:
        return _told(choice, choice.sets[0], made, reason)
    all_made = [made, *map(compile_with, choice.sets[1:])]
    figures = measurer([entry.data for entry, _ in all_made], inputs(), donated)
    index = best(figures)
    measured = [
        {"set": flags.name, **({"dropped": True} if item is None else item.to_json())}
        for flags, item in zip(choice.sets, figures, strict=True)
    ]
    if index is None or figures[0] is None:
        note = "startup: tuned: nothing could be measured: compiled as startup: steady"
        return _told(choice, choice.sets[0], made, note, measured)
    return _told(choice, choice.sets[index], all_made[index], None, measured)


def _nothing_to_measure(entry: Entry, compiled: Any) -> str | None:
    if _LIBRARY_FUSION not in (compiled.as_text() or ""):
        return "every set of options compiles the same: it has no matrix products for a library"
    others = [n for n, provider in entry.facts["custom_calls"] if provider not in _KNOWN_PROVIDERS]
    if others:
        return f"startup: tuned: it calls {', '.join(others)}, which only your code registers"
    return None


def _told(
    choice: Choice,
    flags: FlagSet,
    made: tuple[Entry, Any],
    note: str | None,
    measured: list[dict[str, Any]] | None = None,
) -> tuple[Entry, Any]:
    entry, compiled = made
    told: dict[str, Any] = {"mode": choice.mode, "set": flags.name, "options": dict(flags.options)}
    if measured:
        told["measured"] = measured
    if note:
        told["note"] = note
    return replace(entry, facts={**entry.facts, "startup": told}), compiled
