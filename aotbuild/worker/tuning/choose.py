"""Choose between sets of options for one executable by measuring, and say so in its record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jaxlib.version import __version__ as jaxlib_version

from aotbuild.build.startup import Choice, FlagSet, best, choice
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.isa import missing_features
from aotbuild.spec.golden import seeded
from aotbuild.spec.record import Record
from aotbuild.spec.target import Target
from aotbuild.store.local import Entry
from aotbuild.worker import private as jax_private
from aotbuild.worker.avals import as_numpy
from aotbuild.worker.golden.inputs import given_leaves
from aotbuild.worker.trace import Traced, jit_job
from aotbuild.worker.tuning.measure import Measurer

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


def startup_notes(record: Record) -> list[str]:
    """Return a note for the user where `startup:` was not what the manifest asked for."""
    note = record.provenance.get("startup", {}).get("note")
    return [note] if note else []


def startup_of(mode: str, target: Target) -> Choice:
    """Return what to compile a target with."""
    obstacle = None
    if target.platform == "cpu" and target.devices != 1:
        obstacle = f"{target} is for {target.devices} devices"
    elif target.platform == "cpu":
        missing = missing_features(target.detail, cpuinfo.architecture(), cpuinfo.features())
        if missing:
            obstacle = f"this machine has no {', '.join(missing)} for {target}"
    return choice(mode, target.platform, jaxlib_version, obstacle)


def told(entry: Entry) -> dict[str, Any]:
    """Return what a record says of how its executable was compiled to start."""
    return {"startup": entry.facts["startup"]} if "startup" in entry.facts else {}


def executable_inputs(traced: Traced, lowered: Any) -> list[Any]:
    """Return numpy arrays for the inputs of an executable: constants first, unused leaves left out.

    Leaves are those that golden outputs are computed from: see `verify:` in the manifest.
    """
    constants = [as_numpy(constant) for constant in jax_private.const_args(lowered)]
    given = given_leaves(jit_job(traced.job))
    inputs: list[Any] = []
    for index in jax_private.kept_inputs(lowered):
        leaf = index - len(constants)
        if leaf < 0:
            inputs.append(constants[index])
        else:
            aval = traced.signature.leaves[leaf]
            inputs.append(given[leaf] if leaf in given else seeded(leaf, aval))
    return inputs


def donated_inputs(traced: Traced, lowered: Any) -> tuple[int, ...]:
    """Return which of those inputs the executable may overwrite, by their positions."""
    before = len(jax_private.const_args(lowered))
    kept = jax_private.kept_inputs(lowered)
    return tuple(at for at, index in enumerate(kept) if index - before in traced.donated)
