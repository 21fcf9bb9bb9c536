"""Compile a trace for a target: lower → key → store, or compile → serialize → record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from jaxlib.version import __version__ as jaxlib_version

from aotbuild.format.canonical import mapping
from aotbuild.format.record import Blob, Calling, Constant, CustomCall, Record, Requirements
from aotbuild.format.record_json import specs_from_json, specs_to_json
from aotbuild.format.target import HOST, Target
from aotbuild.platforms.building import compiler
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Store
from aotbuild.store.keys import executable_key
from aotbuild.worker import private as jax_private
from aotbuild.worker.analysis import CustomCalls, check_shapes, summary
from aotbuild.worker.blobs import BlobFolder, store_constants
from aotbuild.worker.leaves import to_aval
from aotbuild.worker.lower import Lowered
from aotbuild.worker.shardings import Spec, specs_of
from aotbuild.worker.thunk_rewrite.canonical import canonical
from aotbuild.worker.thunk_rewrite.rewrite import LOADED, Candidate, identity, rewrite
from aotbuild.worker.trace import Traced

# What a record's provenance says of its executable: whether it was rewritten, and what the compiler
# chose.
_DECISIONS = ("shrink", "choices")


@dataclass(frozen=True)
class Made:
    """The record of an executable, and whether the store had it.

    `candidate` is there if the executable was rewritten and is still to be compared.
    """

    record: Record
    candidate: Candidate | None = None
    stored: bool = False


@dataclass(frozen=True)
class NativeCompiler:
    """Makes executables, or takes them from the store."""

    blobs: BlobFolder
    calls: CustomCalls
    store: Store

    def compile(self, lowered: Lowered, provenance: dict[str, Any]) -> Made:
        """Make an executable; its bytes and constants are written to `blobs`."""
        target, hardware, traced = lowered.target, lowered.hardware, lowered.traced
        there = compiler(target.platform)
        provenance = {**provenance, "stablehlo": lowered.digest, **there.provenance(hardware)}
        key = executable_key(
            target=str(target),
            hardware=hardware.to_json(),
            machine=there.deciding_facts(hardware),
            thunk_rewrite=identity(
                target, shrink=traced.job.shrink, compared=_is_compared(lowered)
            ),
            provenance=provenance,
        )
        store = self.store if there.is_stored(hardware) else Store(None)
        found = store.parsed(key, partial(_with_facts, target))
        entry, plain = (found, None) if found else self._compiled(store, key, lowered)
        blob = self.blobs.add("pjrt", entry.data, key if store.root else None)
        record = self._record(lowered, entry, blob, provenance)
        candidate = plain and Candidate(lowered, plain, entry, store, key)
        return Made(record, candidate or None, stored=found is not None)

    def _compiled(self, store: Store, key: str, lowered: Lowered) -> tuple[Entry, bytes | None]:
        """Return the entry of an executable, which the store gets if it is finished.

        Then the bytes before it was rewritten, if it is still to be compared with them.
        """
        entry, compiled = self._compile_once(lowered)
        if entry.facts.get("shrink") == LOADED and _is_compared(lowered):
            return entry, _serialized(compiled, lowered.target)
        store.put(key, entry)
        return entry, None

    def _compile_once(self, lowered: Lowered) -> tuple[Entry, Any]:
        """Return the entry of an executable, and the `jax.stages.Compiled`."""
        target, hardware = lowered.target, lowered.hardware
        there = compiler(target.platform)
        options = lowered.traced.job.function.compiler_options
        compiled, hlo, choices = there.compile(lowered.compile, target, hardware, options)
        calls = self.calls.of(hlo, target.platform)
        data = _serialized(compiled, target)
        shrink: dict[str, str] = {}
        if lowered.traced.job.shrink:
            data, shrink = rewrite(data, target, jax_private.compiled_module(compiled))
        facts = {
            "requires": there.requirements(target, hardware, data, hlo),
            "custom_calls": [[call.target, call.provider] for call in calls],
            "analysis": summary(compiled, lowered.stage, target.devices, with_calls=bool(calls)),
            "out_specs": specs_to_json(_out_specs(lowered.traced, compiled)),
            "shapes": jax_private.program_shapes(compiled),
            **({"shrink": shrink} if shrink else {}),
            **({"choices": choices} if choices else {}),
        }
        return Entry(facts, data), compiled

    def _record(
        self, lowered: Lowered, entry: Entry, blob: Blob, provenance: dict[str, Any]
    ) -> Record:
        traced, facts = lowered.traced, entry.facts
        decisions = {name: facts[name] for name in _DECISIONS if name in facts}
        record = Record(
            function=traced.job.name,
            signature=traced.signature,
            target=lowered.target,
            blob=blob,
            requires=_requirements(
                lowered.target,
                facts["custom_calls"],
                facts["requires"],
                traced.job.function.imports,
            ),
            calling=Calling(
                name=traced.job.name,
                constants=self._constants(lowered),
                kept=lowered.kept,
                donated=traced.donated,
                in_specs=traced.in_specs,
                outputs=tuple(map(to_aval, traced.closed_jaxpr.out_avals)),
                out_specs=specs_from_json(facts["out_specs"]),
                out_tree=traced.out_tree,
                templates=traced.templates,
                mesh=tuple(traced.job.function.mesh.items()),
                explicit_axes=traced.job.function.explicit_axes,
            ),
            analysis=facts["analysis"],
            provenance={**provenance, **decisions},
        )
        check_shapes(record, *facts["shapes"])
        return record

    def _constants(self, lowered: Lowered) -> tuple[Constant, ...]:
        return store_constants(lowered.constants, self.blobs)


def decision_notes(record: Record) -> list[str]:
    """Return the notes for the user about what was decided while a record's executable was made."""
    decisions = (record.provenance.get(name, {}) for name in _DECISIONS)
    notes = [decision["note"] for decision in decisions if "note" in decision]
    if targets := record.requires.unprovided:
        notes.append(
            f"{record.function} calls {', '.join(targets)}, which its imports registered: name the "
            "module that registers them under imports:, or each program must import it"
        )
    return notes


def _serialized(compiled: Any, target: Target) -> bytes:
    data = jax_private.serialize_executable(compiled)
    return canonical(data, jaxlib_version) if target.platform == HOST else data


def _with_facts(target: Target, entry: Entry) -> Entry:
    """Return an entry with the facts that `_record` needs; raise what reading others raises."""
    facts = entry.facts
    _requirements(target, facts["custom_calls"], mapping(facts["requires"]))
    specs_from_json(facts["out_specs"])
    _inputs, _results = facts["shapes"]
    for name in ("analysis", *(name for name in _DECISIONS if name in facts)):
        mapping(facts[name])
    return entry


def _is_compared(lowered: Lowered) -> bool:
    """Return whether a rewritten executable will run beside the plain one, on golden inputs."""
    is_golden = lowered.traced.job.golden in ("auto", "always")
    return is_golden and compiler(lowered.target.platform).obstacle(lowered.target) is None


def _requirements(
    target: Target, calls: list[list[str]], own: dict[str, Any], imports: tuple[str, ...] = ()
) -> Requirements:
    """Return what every platform requires, and what is a platform's `own` as JSON has it."""
    by_user = "imports" if imports else "user"
    found = [(name, by_user if provider == "user" else provider) for name, provider in calls]
    fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in own.items()}
    return Requirements(
        platforms=target.platforms,
        devices=target.devices,
        processes=target.processes,
        jaxlib=jaxlib_version,
        x64=bool(jax.config.jax_enable_x64),
        custom_calls=tuple(CustomCall(*call) for call in found),
        imports=imports,
        **fields,
    )


def _out_specs(traced: Traced, compiled: Any) -> tuple[Spec, ...]:
    if traced.mesh is None:
        return ()
    shardings = jax_private.flat_out_shardings(compiled)
    outputs = traced.closed_jaxpr.out_avals
    return specs_of(traced.job.name, traced.out_specs, shardings, outputs, traced.mesh)
