"""Stages of a compilation, kept for people to read, and XLA's estimates of cost and memory."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.layout import KINDS
from aotbuild.format.record import Blob
from aotbuild.store.entry import Entry
from aotbuild.worker import private as jax_private
from aotbuild.worker.blobs import BlobFolder
from aotbuild.worker.traced import Traced

# Constants of more elements are written as `dense_resource<__elided__>`.
_MOST_ELEMENTS = 16
# The stages that only compiling shows; the store has all of them or none.
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
        """Write the stages that the manifest asks for; no other text is made."""
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
    """Return the stages of a portable form; the others are made where it runs."""
    data = exported.mlir_module_serialized
    return {
        "jaxpr": lambda: _jaxpr_text(traced),
        "stablehlo": lambda: jax_private.portable_text(data, _MOST_ELEMENTS),
    }


def compiled_entry(compiled: Any, executable: Entry) -> Entry:
    """Return the stages that only compiling shows as an entry of the store."""
    facts = {
        "executable": sha256_hex(executable.data),
        "cost": full_cost(compiled),
        "memory": full_memory(compiled),
    }
    return Entry(facts, (compiled.as_text() or "").encode())


def stored_texts(entry: Entry, executable: Entry) -> dict[str, Text] | None:
    """Return the stages in such an entry, or None if it belongs to an earlier executable."""
    is_of = entry.facts["executable"] == sha256_hex(executable.data)
    return compiled_texts(entry) if is_of else None


def compiled_texts(entry: Entry) -> dict[str, Text]:
    """Return the stages in such an entry, without those the platform does not give."""
    texts: dict[str, Text] = {"hlo": entry.data.decode} if entry.data else {}
    return texts | {name: _json_of(entry, name) for name in ("cost", "memory") if entry.facts[name]}


def _json_of(entry: Entry, name: str) -> Text:
    return lambda: json.dumps(entry.facts[name], indent=2, sort_keys=True) + "\n"


def _jaxpr_text(traced: Traced) -> str:
    """Return the flat jaxpr; it names constants and leaves their values out."""
    text = traced.closed_jaxpr.pretty_print(use_color=False)
    return _SOURCE_FILE.sub(r"\1", _ADDRESS.sub("0x…", text)) + "\n"


def summary(compiled: Any, lowered: Any, devices: int, *, with_calls: bool) -> dict[str, Any]:
    """Return FLOPs, bytes accessed, and sizes of buffers, of one device, as each record has them.

    `peak_bytes` is the most that is held at once, arguments and results included. `with_calls` says
    that the executable has custom calls, `devices` on how many devices it runs.
    """
    own, memory = compiled.cost_analysis(), compiled.memory_analysis()
    cost = own or _module_cost(compiled)
    if with_calls and not own:
        cost["flops"] = max(cost.get("flops", 0.0), _lowered_flops(lowered) / devices)
    names = ("argument", "output", "temp", "alias", "generated_code")
    sizes = {f"{name}_bytes": getattr(memory, f"{name}_size_in_bytes", None) for name in names}
    sizes["peak_bytes"] = getattr(memory, "peak_memory_in_bytes", None)
    return {
        "flops": _stated(cost.get("flops")),
        "bytes_accessed": _stated(cost.get("bytes accessed")),
        **{name: size for name, size in sizes.items() if size is not None},
    }


def _stated(value: float | None) -> float | None:
    """Return None for a number with which a compiler says that it does not know."""
    return value if value is not None and 0 <= value < math.inf else None


def full_cost(compiled: Any) -> dict[str, Any]:
    """Return the whole cost analysis as JSON; infinities and NaN become text."""
    cost = compiled.cost_analysis() or _module_cost(compiled)
    return {name: n if math.isfinite(n) else repr(n) for name, n in cost.items()}


def _module_cost(compiled: Any) -> dict[str, float]:
    """Return XLA:CPU's estimate; compilers for absent CPUs and GPUs give none."""
    return jax_private.module_cost(jax_private.compiled_module(compiled))


def _lowered_flops(lowered: Any) -> float:
    """Return the FLOPs before XLA replaced parts by custom calls, as it does for cuDNN."""
    return jax_private.module_cost(jax_private.lowered_module(lowered)).get("flops", 0.0)


def full_memory(compiled: Any) -> dict[str, int]:
    """Return every number of the memory analysis, sizes in bytes; its protobufs are left out."""
    memory = compiled.memory_analysis()
    values = {name: getattr(memory, name) for name in dir(memory) if not name.startswith("_")}
    return {name: value for name, value in values.items() if type(value) is int}
