"""`pad:` in the manifest: what it becomes, and how it is refused."""

from __future__ import annotations

import math

import pytest
from support.manifests import manifest, refused, whole

from aotbuild.format.padding import PaddedDim
from aotbuild.manifest import Function
from aotbuild.manifest.signatures import value_problem

ENTRY = (
    "call: m:f, args: [x: 'f32[batch,4]', {y: {n: 'i32[seq,batch]'}}], "
    "dims: {batch: [1, 8], seq: 4}"
)


def entry(pad: str, extra: str = "") -> Function:
    return manifest(extra, f"{ENTRY}, pad: {pad}").functions["f"]


def problems(pad: str, extra: str = "") -> list[str]:
    found = refused(whole(extra, f"{ENTRY}, pad: {pad}"))
    return [line.removeprefix("functions.f.") for line in found]


def test_values() -> None:
    assert entry("{batch: 0, seq: 1.0}").padded_dims == (
        PaddedDim("batch", 0),
        PaddedDim("seq", 1.0),
    )
    assert entry("{}").pad == {}


@pytest.mark.parametrize(
    ("pad", "message"),
    [
        ("{batc: 0}", "pad: unknown dim 'batc' (did you mean 'batch'?)"),
        ("{batch: x}", "pad.batch: expected a number or a boolean to pad with"),
        ("{batch: null}", "pad.batch: expected a number or a boolean to pad with"),
        ("{batch: {value: 0}}", "pad.batch: expected a number or a boolean to pad with"),
        ("{batch: 0.5}", ("pad.batch: args.1.y.n has this dim and is int32: expected a whole "
         "number from -2147483648 to 2147483647, found 0.5")),
        ("{seq: .nan}", ("pad.seq: args.1.y.n has this dim and is int32: expected a whole "
         "number from -2147483648 to 2147483647, found nan")),
        ("[batch]", "pad: expected a map, found a list"),
    ],
)  # fmt: skip
def test_refused(pad: str, message: str) -> None:
    assert problems(pad) == [message]


def test_several_processes() -> None:
    extra = "targets: [cuda: {gpu: h100-sxm, devices: 2, processes: 2}]"
    assert problems("{batch: 0}", extra) == [
        "pad: padding works in one process; a target here has several"
    ]


@pytest.mark.parametrize(
    ("value", "dtype", "reason"),
    [
        (0, "float32", None),
        (math.nan, "bfloat16", None),
        (-math.inf, "float32", None),
        (1e300, "float64", None),
        (1e300, "float32", "1e+300 is larger than every finite float32"),
        (0.0, "int8", None),
        (-1, "uint8", "expected a whole number from 0 to 255, found -1"),
        (128, "int8", "expected a whole number from -128 to 127, found 128"),
        (False, "bool", None),
        (1, "bool", None),
        (2, "bool", "expected true, false, 0 or 1, found 2"),
        (True, "int32", "expected a number, found true"),
        (0, "key<fry>", "typed PRNG keys cannot be padded; leave the dim out of pad"),
    ],
)
def test_values_suit_dtypes(value: float, dtype: str, reason: str | None) -> None:
    assert value_problem(value, dtype) == reason
