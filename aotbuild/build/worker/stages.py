"""What is kept of a compilation for people to read: jaxpr, StableHLO, HLO, cost and memory.

All of it is text that comes out the same in every process: no addresses of objects, no paths of
source files, and no constant of more than a few numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aotbuild.build import jax_private
from aotbuild.build.store import Entry
from aotbuild.build.worker.analysis import full_cost, full_memory
from aotbuild.build.worker.blobs import BlobFolder
from aotbuild.build.worker.trace import Traced
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.record import Blob
from aotbuild.spec.stages import KINDS

# Constants of more elements are written as `dense_resource<__elided__>`.
_MOST_ELEMENTS = 16
# What only compiling tells; it is kept in the store, all of it or nothing.
_COMPILED = ("hlo", "cost", "memory")

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")
_SOURCE_FILE = re.compile(r"(?:/[^/\s'\"<>:]+)+/([^/\s'\"<>:]+\.py)\b")

Text = Callable[[], str]


@dataclass(frozen=True)
class Stages:
    """The stages that a manifest asks to keep, and where their bytes go."""

    names: tuple[str, ...]
    blobs: BlobFolder

    @property
    def need_compiling(self) -> bool:
        """Whether any of them is known only after compiling."""
        return bool(set(self.names) & set(_COMPILED))

    def keep(self, texts: Mapping[str, Text]) -> tuple[tuple[str, Blob], ...]:
        """Write what is asked for and can be had; a text that nobody wants is never made."""
        return tuple(
            (name, self.blobs.add(KINDS[name], texts[name]().encode()))
            for name in self.names
            if name in texts
        )


def lowered_texts(traced: Traced, lowered: Any) -> dict[str, Text]:
    """Return the stages before the compiler, of an executable."""
    module = lowered.compiler_ir("stablehlo")
    return {
        "jaxpr": lambda: _jaxpr_text(traced),
        "stablehlo": lambda: jax_private.module_text(module, _MOST_ELEMENTS),
    }


def exported_texts(traced: Traced, exported: Any) -> dict[str, Text]:
    """Return the stages of a portable form; the others come into being where it runs."""
    data = exported.mlir_module_serialized
    return {
        "jaxpr": lambda: _jaxpr_text(traced),
        "stablehlo": lambda: jax_private.portable_text(data, _MOST_ELEMENTS),
    }


def compiled_entry(compiled: Any, executable: Entry) -> Entry:
    """Return what only compiling tells as an entry of the store, tied to its executable."""
    facts = {
        "executable": sha256_hex(executable.data),
        "cost": full_cost(compiled),
        "memory": full_memory(compiled),
    }
    return Entry(facts, (compiled.as_text() or "").encode())


def is_of(entry: Entry, executable: Entry) -> bool:
    """Return whether such an entry tells of this very executable, and not of an earlier one."""
    return bool(entry.facts["executable"] == sha256_hex(executable.data))


def compiled_texts(entry: Entry) -> dict[str, Text]:
    """Return the stages in such an entry; what the platform does not tell is left out."""
    texts: dict[str, Text] = {name: _json_of(entry, name) for name in ("cost", "memory")}
    present = {name: text for name, text in texts.items() if entry.facts[name]}
    return {"hlo": entry.data.decode, **present} if entry.data else present


def _json_of(entry: Entry, name: str) -> Text:
    return lambda: json.dumps(entry.facts[name], indent=2, sort_keys=True) + "\n"


def _jaxpr_text(traced: Traced) -> str:
    """Return the flat jaxpr; its constants are named, their values are not in it."""
    text = traced.closed_jaxpr.pretty_print(use_color=False)
    return _SOURCE_FILE.sub(r"\1", _ADDRESS.sub("0x…", text)) + "\n"
