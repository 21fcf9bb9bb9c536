"""Golden inputs: the same bits for ever, exact in their dtype, safe as indices."""

from __future__ import annotations

import hashlib

import ml_dtypes
import numpy as np
import pytest

from aotbuild.format import dtypes
from aotbuild.format.aval import Aval
from aotbuild.format.golden import sample_indices, seeded, stored_bytes

DTYPES = sorted(dtypes.DTYPES)
# Of 100 elements each; whoever changes these breaks every wheel that was built before.
DIGESTS = {
    "float32": "2a8a24373e0c390b",
    "bfloat16": "f0ff44d64810227c",
    "int32": "be581e5944794c83",
    "float8_e4m3fn": "debaa2a048fe0790",
    "complex64": "33601bc883991c5f",
    "bool": "48fa6bd4d0298a4b",
    "key<fry>": "4722ab5b8c187146",
}


@pytest.mark.parametrize("dtype", DIGESTS)
def test_bits_are_those_of_the_first_release(dtype: str) -> None:
    array = seeded(3, Aval((10, 10), dtype))
    assert hashlib.sha256(array.tobytes()).hexdigest()[:16] == DIGESTS[dtype]


def test_the_rule_written_out_for_another_reader() -> None:
    stream = hashlib.shake_256(b"aotbuild golden 1 7 f32[2,3]").digest(24)
    words = [int.from_bytes(stream[i : i + 4], "little") for i in range(0, 24, 4)]
    expected = [(2 * (word % 2**24) + 1 - 2**24) / 2**24 for word in words]
    found = seeded(7, Aval((2, 3), "float32"))
    assert found.dtype == np.float32
    assert found.reshape(-1).tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str) -> None:
    aval = Aval((5, 200), dtype)
    array = seeded(0, aval)
    assert array.nbytes == stored_bytes(aval)
    assert array.shape[:2] == aval.shape
    if dtypes.DTYPES[dtype].key:
        assert array.dtype == np.uint32
        return
    assert str(array.dtype) == dtype
    numbers = array.astype(np.complex128 if dtype.startswith("complex") else np.float64)
    assert np.isfinite(numbers).all()
    assert len(np.unique(numbers)) >= 2
    if array.dtype.kind in "biu" or "int" in dtype:
        assert set(numbers.reshape(-1)) <= set(range(8))
    elif not dtype.startswith("float4"):
        assert (np.abs(numbers.real) < 1).all()


def test_floats_are_exact() -> None:
    array = seeded(0, Aval((1000,), "bfloat16")).astype(np.float64)
    assert (array * 2**8 % 2 == 1).all()
    assert (array.astype(ml_dtypes.bfloat16).astype(np.float64) == array).all()


def test_leaves_differ_and_so_do_shapes() -> None:
    first, second = (seeded(leaf, Aval((8,), "float32")) for leaf in (0, 1))
    assert (first != second).any()
    assert (seeded(0, Aval((2, 4), "float32")).reshape(-1) != first).any()
    assert seeded(0, Aval((0, 3), "float32")).shape == (0, 3)
    assert seeded(0, Aval((), "float32")).shape == ()


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 10**6, 4096 * 4096, 2**40])
def test_samples_are_spread_over_the_whole(size: int) -> None:
    found = sample_indices(size)
    assert len(found) == min(size, 4096)
    assert (np.diff(found) > 0).all()
    assert not size or 0 <= found[0] <= found[-1] < size
    if 4096 < size < 2**32:
        assert found[-1] >= size - size // 4096 - 1


def test_samples_do_not_stay_in_one_column() -> None:
    assert len(set((sample_indices(4096 * 4096) % 4096).tolist())) > 3000
