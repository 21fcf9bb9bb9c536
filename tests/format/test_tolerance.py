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


@pytest.mark.parametrize("tolerance", [CPU, Tolerance("cpu", rtol=0, atol=0)], ids=["own", "none"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16"])
def test_an_infinity_is_only_itself(dtype: str, tolerance: Tolerance) -> None:
    kind = getattr(ml_dtypes, dtype, dtype)
    want = np.array([INF, INF, INF, -INF, 5, 1]).astype(kind)
    have = np.array([INF, -INF, 5, np.nan, INF, 1]).astype(kind)
    assert are_near(want, have, tolerance) == [True, False, False, False, False, True]


def test_squares_of_large_numbers_do_not_overflow() -> None:
    assert are_near([1e300, 1.0], [1e300, 2.0], Tolerance("cpu", rtol=0)) == [True, True]
    assert are_near([1e300, 1.0], [2e300, 1.0]) == [False, True]


def test_no_elements() -> None:
    assert are_near(np.zeros(0, np.float32), np.zeros(0)) == []


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float8_e4m3fn", "complex128"])
def test_which_dtypes_have_a_tolerance(dtype: str) -> None:
    assert bool(default_tolerance(dtype, "cpu")) is dtype.startswith(("float", "complex"))
