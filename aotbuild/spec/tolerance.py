"""How near two computations of the same numbers are, by dtype and platform."""

from __future__ import annotations

# Relative tolerances by dtype: on CPUs, and on accelerators, which round matrix products more.
_CPU = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 2e-2}
_ACCELERATOR = {"float64": 1e-7, "float32": 2e-2, "float16": 5e-2, "bfloat16": 5e-2}
# Of one step between two neighbours, and then some.
_NARROW = {
    "float8_e3m4": 0.1,
    "float8_e4m3": 0.2,
    "float8_e5m2": 0.3,
    "float8_e8m0": 0.5,
    "float4_e2m1": 0.6,
}
# What a result takes over from coarser floats on the way to it, at most: with more, zeros would
# pass for numbers.
MOST_INHERITED = 0.1
PARTS = {"complex64": "float32", "complex128": "float64"}


def default_tolerance(dtype: str, platform: str) -> float:
    """Return the relative tolerance of a float dtype; 0 for every other dtype."""
    name = PARTS.get(dtype, dtype)
    for prefix, value in _NARROW.items():
        if name.startswith(prefix):
            return value
    return (_CPU if platform == "cpu" else _ACCELERATOR).get(name, 0.0)
