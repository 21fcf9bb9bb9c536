"""How near numbers must be: one rule for golden outputs, for padding and for tuning."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aotbuild.format.golden import Tolerance, default_tolerance, near, widened

CPU = Tolerance("cpu")
INF = np.inf


def are_near(want: Any, have: Any, tolerance: Tolerance = CPU) -> list[bool]:
    want = np.asarray(want)
    wide, dtype = widened(want), str(want.dtype)
    found: list[bool] = near(
        wide, widened(np.asarray(have, want.dtype)), tolerance.bound(wide, dtype)
    ).tolist()
    return found


def test_a_number_by_its_dtype() -> None:
    want = np.array([1, -2], np.float32)
    assert are_near(want, want * np.float32(1 + 1e-5)) == [True, True]
    assert are_near(want, want * np.float32(1.01)) == [False, False]
    assert are_near(want, want * np.float32(1.01), Tolerance("cuda")) == [True, True]


def test_what_is_nearly_zero_among_large_numbers_does_not_count() -> None:
    want = np.array([1000, 0], np.float32)
    assert are_near(want, want + np.float32(0.01)) == [True, True]
    assert are_near(want, want + np.float32(0.01), Tolerance("cpu", atol=0)) == [True, False]


def test_tolerances_that_are_given() -> None:
    want = np.array([1, 0], np.float64)
    assert are_near(want, [1.4, 0], Tolerance("cpu", rtol=0.5, atol=0)) == [True, True]
    assert are_near(want, [1, 0.4], Tolerance("cpu", rtol=0, atol=0.5)) == [True, True]
    assert are_near(want, [1, 1e-300], Tolerance("cpu", rtol=0, atol=0)) == [True, False]


def test_a_result_is_as_coarse_as_the_floats_on_the_way_to_it() -> None:
    want = np.array([1, 2], np.float32)
    coarse = Tolerance("cpu", ("bfloat16", "float32"))
    assert are_near(want, want * np.float32(1.01), coarse) == [True, True]
    # Not so coarse that zeros pass for numbers.
    assert are_near(want, want * 0, Tolerance("cpu", ("float8_e8m0fnu",))) == [False, False]


@pytest.mark.parametrize("tolerance", [CPU, Tolerance("cpu", rtol=0, atol=0)], ids=["own", "none"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16"])
def test_an_infinity_is_only_itself(dtype: str, tolerance: Tolerance) -> None:
    kind = getattr(ml_dtypes, dtype, dtype)
    want = np.array([INF, INF, INF, -INF, 5, 1]).astype(kind)
    have = np.array([INF, -INF, 5, np.nan, INF, 1]).astype(kind)
    assert are_near(want, have, tolerance) == [True, False, False, False, False, True]


def test_nan_is_only_itself() -> None:
    assert are_near([np.nan, np.nan, 1.0], [np.nan, 1.0, np.nan]) == [True, False, False]


def test_squares_of_large_numbers_do_not_overflow() -> None:
    assert are_near([1e300, 1.0], [1e300, 2.0], Tolerance("cpu", rtol=0)) == [True, True]
    assert are_near([1e300, 1.0], [2e300, 1.0]) == [False, True]


def test_no_elements() -> None:
    assert are_near(np.zeros(0, np.float32), np.zeros(0)) == []


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float8_e4m3fn", "complex128"])
def test_which_dtypes_have_a_tolerance(dtype: str) -> None:
    assert bool(default_tolerance(dtype, "cpu")) is dtype.startswith(("float", "complex"))
