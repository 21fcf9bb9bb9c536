"""What the demo does with measurements: compare them, count, take medians."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

TOLERANCE = 1e-4  # of log-probabilities and scores; two compilations may round differently


def all_close(found: Sequence[float], expected: Sequence[float]) -> bool:
    """Compare number by number; NaN is close to nothing."""
    return len(found) == len(expected) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for a, b in zip(found, expected, strict=True)
    )


def count_problems(
    precompiled: Sequence[Mapping[str, int]], jitted: Mapping[str, int]
) -> list[str]:
    """Nothing was compiled with the wheel; with jit it was, so the counters do count."""
    problems = [
        f"{count} {name} in a process with the precompiled wheel, not 0"
        for counts in precompiled
        for name, count in counts.items()
        if count
    ]
    problems += [
        f"no {name} counted with jit: the counters are broken"
        for name, count in jitted.items()
        if not count
    ]
    return problems


def spread(seconds: Sequence[float]) -> str:
    """Return the median, and the lowest and the highest in brackets."""
    return f"{median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
