"""Padding as data: round trips, hostile objects, buckets, and numpy arrays padded and cut."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.packages import build, write

import aotbuild
from aotbuild.errors import InvalidArgument, SignatureMismatch
from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_json
from aotbuild.format.padding import PaddedDim, Padding
from aotbuild.format.signature import Function, Signature
from aotbuild.runtime import padding
from aotbuild.runtime.padding import (
    Disagreement,
    buckets_for,
    find_plan,
    padded_signature,
    sizes_of,
    why_not,
)

PADDING = Padding(
    dims=(PaddedDim("batch", 0), PaddedDim("seq", math.nan)),
    buckets=((2, 4), (2, 16), (8, 4), (8, 8)),
    leaves=(((0, 0), (1, 1)), (), ((1, 0),)),
    outputs=(((0, 0),), ()),
)
FUNCTION = Function("f", "m:f", ("x",), ("x",), (), (), (), PADDING)


def leaves(batch: int, seq: int, other: int | None = None) -> tuple[Aval, ...]:
    last = Aval((3, batch if other is None else other), "int32")
    return Aval((batch, seq), "float32"), Aval((), "float32"), last


def signature(batch: int, seq: int) -> Signature:
    return Signature(["tuple", ["tuple", "*", "*", "*"], ["dict", []]], leaves(batch, seq))


class FakeIndex:
    """Has a record for each size that was compiled."""

    def __init__(self, *sizes: tuple[int, int]) -> None:
        self.keys = {signature(*size).key() for size in sizes}

    def records(self, _: str, key: str) -> list[str]:
        return [key] if key in self.keys else []


class TestData:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (["dims"], []),
            (["dims", 1, 0], "batch"),
            (["dims", 0, 1], {"name": "os:system"}),
            (["dims", 0], ["batch"]),
            (["buckets"], [[8, 8], [2, 4]]),
            (["buckets", 0], [-1, 4]),
            (["leaves", 0], [[0, 0], [0, 1]]),
            (["leaves", 0], [[0, 2]]),
            (["outputs", 0], [[0]]),
            ([], []),
        ],
    )
    def test_hostile(self, path: list[Any], value: Any) -> None:
        data: Any = {"pad": copy.deepcopy(json.loads(canonical_json(PADDING.to_json())))}
        place = data
        *steps, last = ["pad", *path]
        for step in steps:
            place = place[step]
        place[last] = value
        with pytest.raises(ValueError, match=r"padding|not a function|not the encoding|to unpack"):
            Function.from_json({**FUNCTION.to_json(), **data})


class TestChoosing:
    def test_disagreement(self) -> None:
        found = sizes_of(PADDING, leaves(3, 5, other=4))
        assert found == Disagreement("batch", 0, 3, 2, 4)
        text = why_not(PADDING, Signature("*", leaves(3, 5, other=4)), ["x", "s", "y['n']"])
        assert text == ["pad: batch is 3 in x and 4 in y['n']"]

    def test_too_large(self) -> None:
        text = why_not(PADDING, Signature("*", leaves(9, 17)), ["x", "s", "y"])
        assert text == [
            "pad: batch is 9; the largest bucket is 8",
            "pad: seq is 17; the largest bucket is 16",
        ]

    def test_smallest_volume_first(self) -> None:
        # (2, 16) has 38 elements, (8, 4) has 56 and (8, 8) has 88.
        assert buckets_for(PADDING, leaves(1, 3), (1, 3)) == [(2, 4), (2, 16), (8, 4), (8, 8)]
        assert buckets_for(PADDING, leaves(2, 5), (2, 5)) == [(2, 16), (8, 8)]
        assert buckets_for(PADDING, leaves(8, 8), (8, 8)) == []

    def test_only_what_was_compiled(self) -> None:
        index: Any = FakeIndex((2, 16), (8, 8))
        plan = find_plan(index, FUNCTION, signature(1, 3))
        assert plan is not None
        assert (plan.given, plan.bucket) == ((1, 3), (2, 16))
        assert plan.key == padded_signature(PADDING, signature(1, 3), (2, 16)).key()
        assert str(plan) == "batch 1 → 2, seq 3 → 16"
        assert find_plan(index, FUNCTION, signature(9, 3)) is None


class TestCalls:
    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    @pytest.mark.parametrize("value", [np.arange(3.0), np.float64(2), 2.0])
    def test_each_64_bit_mode_has_its_own_plan(
        self, tmp_path: Path, arrays: str, value: Any
    ) -> None:
        """What one mode found no bucket for is padded in the other, and the other way round."""
        x, given = np.zeros(4, "float32"), (np.float32([1, 2, 3]), value)
        if isinstance(value, np.ndarray):
            compiled: Any = np.zeros(4, "float32")
            axes: Any = (((0, 0),), ((0, 0),))
        else:
            compiled, axes = value, (((0, 0),), ())
        built = build("f", lambda x, y: x * y, {"x": x, "y": compiled})
        pad = Padding((PaddedDim("n", 0),), ((4,),), axes, (((0, 0),),))
        built = dataclasses.replace(built, function=dataclasses.replace(built.function, pad=pad))
        folder = write(tmp_path, [built])
        for first in (True, False):
            library = aotbuild.load(folder, arrays=arrays)
            for wide in (first, not first, first):
                with jax.enable_x64(wide):
                    if wide:
                        with pytest.raises(SignatureMismatch, match="found True"):
                            library.f(*given)
                    else:
                        assert np.array_equal(library.f(*given), given[0] * np.float32(value))

    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    def test_refused_calls_are_not_counted(self, tmp_path: Path, arrays: str) -> None:
        library = doubling(tmp_path, arrays)
        kept = library.place(np.ones(3, "float32")) if arrays == "jax" else library.f.keeping()(X)
        kept.delete()
        with pytest.raises(InvalidArgument, match="a deleted array"):
            library.f(kept)
        assert library.stats()["padded"] == (arrays == "numpy")

    def test_a_result_that_stays_is_not_copied(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It keeps its padding, with the manifest's value in it, and no call sees that."""
        library = doubling(tmp_path, "numpy", value=7)
        step = library.f.keeping()
        kept = step(X)
        assert isinstance(kept, aotbuild.DeviceArray)
        assert (kept.shape, kept.nbytes, len(kept)) == ((3,), 12, 3)
        np.testing.assert_array_equal(kept, X * 2)
        np.testing.assert_array_equal(library.f(np.zeros(4, "float32")), np.zeros(4))
        with monkeypatch.context() as patch:
            patch.setattr(padding, "aligned", None)  # memory for a padded copy
            np.testing.assert_array_equal(library.f(kept), X * 4)
            kept = step(step(kept))
        assert kept.whole().__array__().tolist() == [8, 16, 24, 7]
        np.testing.assert_array_equal(library.total(kept), 48)  # compiled for 3
        other = doubling(tmp_path / "other", "numpy", value=1)
        np.testing.assert_array_equal(other.f(kept), X * 16)
        kept.delete()
        assert kept.is_deleted()


X = np.float32([1, 2, 3])


def doubling(root: Path, arrays: str, value: float = 0) -> aotbuild.Library:
    """Return a library with a function that is compiled for 4 elements, and a sum of 3."""
    total = build("total", lambda x: x.sum(), {"x": X})
    built = build("f", lambda x: x * 2, {"x": np.zeros(4, "float32")})
    pad = Padding((PaddedDim("n", value),), ((4,),), (((0, 0),),), (((0, 0),),))
    built = dataclasses.replace(built, function=dataclasses.replace(built.function, pad=pad))
    return aotbuild.load(write(root, [built, total]), arrays=arrays)
