"""XLA's estimates of the cost and the memory of an executable."""

from __future__ import annotations

import math
from typing import Any

from aotbuild.worker import private as jax_private


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


def _module_cost(compiled: Any) -> dict[str, float]:
    """Return XLA:CPU's estimate; compilers for absent CPUs and GPUs give none."""
    return jax_private.module_cost(jax_private.compiled_module(compiled))


def _lowered_flops(lowered: Any) -> float:
    """Return the FLOPs before XLA replaced parts by custom calls, as it does for cuDNN."""
    return jax_private.module_cost(jax_private.lowered_module(lowered)).get("flops", 0.0)
