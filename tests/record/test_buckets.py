"""Buckets: no other choice of as many wastes less."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotbuild.record.buckets import choose_buckets

HISTOGRAMS = st.dictionaries(st.integers(0, 40), st.integers(1, 9), min_size=1, max_size=7)


def least_work(histogram: dict[int, int], most: int) -> int:
    *others, largest = sorted(histogram)
    return min(
        sum(min(b for b in (*chosen, largest) if b >= size) * n for size, n in histogram.items())
        for count in range(most)
        for chosen in combinations(others, min(count, len(others)))
    )


@given(HISTOGRAMS, st.integers(1, 8))
def test_the_choice_is_exact(histogram: dict[int, int], most: int) -> None:
    found = choose_buckets(histogram, most, 0.0)
    work = sum(found.of(size) * calls for size, calls in histogram.items())
    assert work == least_work(histogram, most)
    real = sum(size * calls for size, calls in histogram.items())
    assert found.waste == pytest.approx(1 - real / work if work else 0.0)
    assert len(found.sizes) <= most
    assert {*found.sizes} <= {*histogram}


@given(HISTOGRAMS, st.floats(0, 1))
def test_fewer_buckets_are_taken_where_the_waste_allows_it(
    histogram: dict[int, int], limit: float
) -> None:
    found = choose_buckets(histogram, 8, limit)
    assert found.waste <= limit + 1e-9
    if len(found.sizes) > 1:
        assert choose_buckets(histogram, len(found.sizes) - 1, 0.0).waste > limit


def test_often_called_sizes_get_buckets_of_their_own() -> None:
    sizes = {1: 1000, 2: 1, 3: 1, 100: 1000, 101: 1}
    assert choose_buckets(sizes, 2, 0.0).sizes == (1, 101)
    assert choose_buckets(sizes, 3, 0.0).sizes == (1, 100, 101)


def test_thousands_of_sizes_are_quick() -> None:
    found = choose_buckets({size: size % 17 + 1 for size in range(1, 2000)}, 8, 0.0)
    assert len(found.sizes) == 8
    assert found.sizes[-1] == 1999
