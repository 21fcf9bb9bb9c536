"""Buckets: the few sizes that calls of many sizes are padded to, by how often each size is called.

The work of a call is taken to be its size: a call of 5 that is padded to 8 wastes 3 of 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Buckets:
    """Sizes to pad to, ascending.

    Attributes:
        sizes: The buckets. Each is a size that was called.
        waste: The part of the padded work that is padding, from 0 to 1.
    """

    sizes: tuple[int, ...]
    waste: float

    def of(self, size: int) -> int:
        """Return the smallest bucket that holds a size."""
        return next(bucket for bucket in self.sizes if bucket >= size)


def choose_buckets(histogram: Mapping[int, int], most: int, max_waste: float) -> Buckets:
    """Return the fewest buckets that waste at most `max_waste`, or the best `most` of them.

    The histogram has the number of calls by size. The choice is exact: no other buckets of the same
    number waste less.
    """
    sizes = sorted(histogram)
    real = sum(size * histogram[size] for size in sizes)
    plan = _Plan(sizes, [histogram[size] for size in sizes])
    for work, ends in plan.best(min(most, len(sizes))):
        found = Buckets(tuple(sizes[end - 1] for end in ends), 1 - real / work if work else 0.0)
        if found.waste <= max_waste:
            break
    return found


class _Plan:
    """Finds the least padded work for 1, 2, 3… buckets.

    best[j] = min over i < j of best[i] + size[j-1] * (calls of the sizes i to j-1). That cost
    fulfills the quadrangle inequality, so the best i does not fall as j grows, and each
    number of buckets takes n log n steps by divide and conquer.
    """

    def __init__(self, sizes: Sequence[int], calls: Sequence[int]) -> None:
        self._sizes, self._sums = sizes, [0, *accumulate(calls)]
        self._ends: list[list[int]] = []

    def best(self, most: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return the least work of each number of buckets, and where each bucket ends."""
        count = len(self._sizes)
        work: list[float] = [0, *([float("inf")] * count)]
        found = []
        for buckets in range(1, most + 1):
            work = self._one_more(work)
            found.append((int(work[count]), self._way(buckets)))
        return found

    def _one_more(self, before: list[float]) -> list[float]:
        count = len(self._sizes)
        work, chosen = [float("inf")] * (count + 1), [0] * (count + 1)
        open_ranges = [(1, count, 0, count - 1)]
        while open_ranges:
            low, high, first, last = open_ranges.pop()
            if low > high:
                continue
            end = (low + high) // 2
            work[end], start = min(
                (before[i] + self._cost(i, end), i) for i in range(first, min(end - 1, last) + 1)
            )
            chosen[end] = start
            open_ranges += [(low, end - 1, first, start), (end + 1, high, start, last)]
        self._ends.append(chosen)
        return work

    def _cost(self, start: int, end: int) -> int:
        return self._sizes[end - 1] * (self._sums[end] - self._sums[start])

    def _way(self, buckets: int) -> tuple[int, ...]:
        end, ends = len(self._sizes), []
        for chosen in reversed(self._ends[:buckets]):
            ends.append(end)
            end = chosen[end]
        return tuple(reversed(ends))
