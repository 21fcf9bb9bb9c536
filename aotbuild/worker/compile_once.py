"""Take an executable from the store, or compile it and keep it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aotbuild.build.startup import Choice
from aotbuild.platforms.building import Hardware
from aotbuild.platforms.cpu.compile import deciding_facts
from aotbuild.spec.target import Target
from aotbuild.store.keys import key_of
from aotbuild.store.local import Entry, Store
from aotbuild.worker.stages import Text, compiled_entry, compiled_texts, is_of
from aotbuild.worker.thunk_rewrite.rewrite import VERSION

# Compiles; returns the entry of the executable, and jax's own `Compiled`.
Compile = Callable[[], tuple[Entry, Any]]


def compile_once(
    store: Store | None, inputs: Mapping[str, Any], compile_now: Compile, *, with_stages: bool
) -> tuple[Entry, dict[str, Text]]:
    """Return an executable and, if asked for, the stages that only its compilation told."""
    key, stages_key = key_of(inputs), key_of({**inputs, "entry": "stages"})
    entry = _stored(store, key)
    if entry is not None and not with_stages:
        return entry, {}
    kept = _stored(store, stages_key) if entry is not None else None
    if entry is not None and kept is not None and is_of(kept, entry):
        return entry, compiled_texts(kept)
    entry, compiled = compile_now()
    _put(store, key, entry)
    if not with_stages:
        return entry, {}
    kept = compiled_entry(compiled, entry)
    _put(store, stages_key, kept)
    return entry, compiled_texts(kept)


def decisive_inputs(
    target: Target, hardware: Hardware, provenance: Mapping[str, Any], startup: Choice
) -> dict[str, Any]:
    """Return all that decides the bytes of an executable, as the store's key wants it."""
    # Some settings of jax, as jax_optimization_level, tell XLA more than the module does.
    decisive = ("stablehlo", "aotbuild", "jax", "jaxlib", "xla_flags", "compiler_options", "config")
    return {
        "target": str(target),
        "hardware": hardware.to_json(),
        # Compilers for other platforms know nothing of the machine that they run on.
        "machine": deciding_facts() if target.platform == "cpu" else [],
        "compilers": provenance.get("compilers", {}),
        "startup": startup.identity(),
        "lean": VERSION,
        **{name: provenance[name] for name in decisive},
    }


def _stored(store: Store | None, key: str) -> Entry | None:
    return store.get(key) if store else None


def _put(store: Store | None, key: str, entry: Entry) -> None:
    if store:
        store.put(key, entry)
