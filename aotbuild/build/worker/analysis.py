"""XLA's own estimates of an executable: what a call costs, and what memory it takes."""

from __future__ import annotations

import math
from typing import Any

from aotbuild.build import jax_private


def summary(compiled: Any, lowered: Any, devices: int, *, with_calls: bool) -> dict[str, Any]:
    """Return what every record has: FLOPs, bytes accessed, and sizes of the buffers, of one device.

    `peak_bytes` is the most that is held at once, arguments and results included. `with_calls` says
    that the executable has custom calls, and `devices` over how many it is spread.
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
    """Return None for the negative and infinite numbers of a compiler that does not know."""
    return value if value is not None and 0 <= value < math.inf else None


def full_cost(compiled: Any) -> dict[str, Any]:
    """Return the whole cost analysis as JSON has it; a number that is none becomes text."""
    cost = compiled.cost_analysis() or _module_cost(compiled)
    return {name: n if math.isfinite(n) else repr(n) for name, n in cost.items()}


def _module_cost(compiled: Any) -> dict[str, float]:
    """Return what XLA:CPU says of the program; compilers for absent CPUs and GPUs say nothing."""
    return jax_private.module_cost(jax_private.compiled_module(compiled))


def _lowered_flops(lowered: Any) -> float:
    """Return the FLOPs before XLA made custom calls of some of it, as it does for cuDNN."""
    return jax_private.module_cost(jax_private.lowered_module(lowered)).get("flops", 0.0)


def full_memory(compiled: Any) -> dict[str, int]:
    """Return every number of the memory analysis, sizes in bytes; its protobufs are left out."""
    memory = compiled.memory_analysis()
    values = {name: getattr(memory, name) for name in dir(memory) if not name.startswith("_")}
    return {name: value for name, value in values.items() if type(value) is int}
