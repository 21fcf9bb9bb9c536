"""XLA's own estimates of an executable: what a call costs, and what memory it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def summary(compiled: Any) -> dict[str, Any]:
    """Return what every record has: FLOPs, bytes accessed, and sizes of the buffers in bytes."""
    cost: Mapping[str, float] = compiled.cost_analysis() or {}
    memory = compiled.memory_analysis()
    names = ("argument", "output", "temp", "alias", "generated_code")
    sizes = {f"{name}_bytes": getattr(memory, f"{name}_size_in_bytes", None) for name in names}
    return {
        "flops": cost.get("flops"),
        "bytes_accessed": cost.get("bytes accessed"),
        **{name: size for name, size in sizes.items() if size is not None},
    }


def full_cost(compiled: Any) -> dict[str, Any]:
    """Return the whole cost analysis as JSON has it; a number that is none becomes text."""
    cost: Mapping[str, float] = compiled.cost_analysis() or {}
    return {name: n if math.isfinite(n) else repr(n) for name, n in cost.items()}


def full_memory(compiled: Any) -> dict[str, int]:
    """Return every number of the memory analysis, sizes in bytes; its protobufs are left out."""
    memory = compiled.memory_analysis()
    values = {name: getattr(memory, name) for name in dir(memory) if not name.startswith("_")}
    return {name: value for name, value in values.items() if type(value) is int}
