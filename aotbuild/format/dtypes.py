"""The dtypes of arrays: one table, from which everything that depends on a dtype is read.

To add a dtype, add its line to `_TABLE`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """One dtype.

    Attributes:
        name: The long name, as numpy and ml_dtypes print it.
        short: The name in avals, as in `jax.core.ShapedArray.str_short`.
        bits: The size of an element in XLA's arrays.
        narrowed: What jax makes of it without `jax_enable_x64`; empty where it stays as it is.
        significand: Bits of the significand of a float, the leading one included.
        largest: Numbers of a larger magnitude round to infinity; None where that is not checked.
        host: The relative tolerance of golden outputs on CPUs.
        accelerator: The same on accelerators, which round matrix products more.
        seeds: The values of golden inputs; empty for integers, which take 0 to 7, and for floats
            with a `significand`.
        parts: The dtype of the two parts of a complex number.
        tensor: The name in safetensors, which all versions of that format have.
        key: For typed PRNG keys the name that `jax.random.wrap_key_data` takes.
        words: How many uint32 one key has.
    """

    name: str
    short: str
    bits: int
    narrowed: str = ""
    significand: int = 0
    largest: float | None = None
    host: float = 0.0
    accelerator: float = 0.0
    seeds: tuple[float, ...] = ()
    parts: str = ""
    tensor: str = ""
    key: str = ""
    words: int = 0


_POWERS = tuple(2.0**-n for n in range(1, 9))
_HALVES = (-1.5, -0.5, 0.5, 1.5)
# Read in jax._src.dtypes of jax 0.10.2 and 0.12.0.1. The tolerances of narrow floats are a little
# more than the distance between two neighbors.
_TABLE = (
    Dtype("bool", "bool", 8, seeds=(0, 1), tensor="BOOL"),
    Dtype("int2", "i2", 2, seeds=(0, 1)),
    Dtype("int4", "i4", 4),
    Dtype("int8", "i8", 8, tensor="I8"),
    Dtype("int16", "i16", 16, tensor="I16"),
    Dtype("int32", "i32", 32, tensor="I32"),
    Dtype("int64", "i64", 64, "int32", tensor="I64"),
    Dtype("uint2", "u2", 2, seeds=(0, 1, 2, 3)),
    Dtype("uint4", "u4", 4),
    Dtype("uint8", "u8", 8, tensor="U8"),
    Dtype("uint16", "u16", 16, tensor="U16"),
    Dtype("uint32", "u32", 32, tensor="U32"),
    Dtype("uint64", "u64", 64, "uint32", tensor="U64"),
    Dtype("float16", "f16", 16, "", 11, 65504.0, 2e-2, 5e-2, tensor="F16"),
    Dtype("float32", "f32", 32, "", 24, 3.4028235677973366e38, 1e-4, 2e-2, tensor="F32"),
    Dtype("float64", "f64", 64, "float32", 53, None, 1e-9, 1e-7, tensor="F64"),
    Dtype("bfloat16", "bf16", 16, "", 8, None, 2e-2, 5e-2),
    Dtype("float8_e3m4", "f8_e3m4", 8, "", 5, None, 0.1, 0.1),
    Dtype("float8_e4m3", "f8_e4m3", 8, "", 4, None, 0.2, 0.2),
    Dtype("float8_e4m3b11fnuz", "f8_e4m3b11fnuz", 8, "", 4, None, 0.2, 0.2),
    Dtype("float8_e4m3fn", "f8_e4m3fn", 8, "", 4, None, 0.2, 0.2),
    Dtype("float8_e4m3fnuz", "f8_e4m3fnuz", 8, "", 4, None, 0.2, 0.2),
    Dtype("float8_e5m2", "f8_e5m2", 8, "", 3, None, 0.3, 0.3),
    Dtype("float8_e5m2fnuz", "f8_e5m2fnuz", 8, "", 3, None, 0.3, 0.3),
    Dtype("float8_e8m0fnu", "f8_e8m0fnu", 8, "", 0, None, 0.5, 0.5, _POWERS),
    Dtype("float4_e2m1fn", "f4_e2m1fn", 4, "", 0, None, 0.6, 0.6, _HALVES),
    Dtype("complex64", "c64", 64, "", 0, None, 1e-4, 2e-2, parts="float32"),
    Dtype("complex128", "c128", 128, "complex64", 0, None, 1e-9, 1e-7, parts="float64"),
    Dtype("key<fry>", "key<fry>", 32, key="threefry2x32", words=2),
    Dtype("key<rbg>", "key<rbg>", 32, key="rbg", words=4),
    Dtype("key<urbg>", "key<urbg>", 32, key="unsafe_rbg", words=4),
)  # fmt: skip
# By their long names, and by their short ones.
DTYPES = {dtype.name: dtype for dtype in _TABLE}
BY_SHORT = {dtype.short: dtype for dtype in _TABLE}
# jax names them from 0.12 on, and XLA compiles no operation on them.
UNUSABLE = {"int1": "i1", "uint1": "u1", **{f"float6_{n}": f"f6_{n}" for n in ("e2m3fn", "e3m2fn")}}
WIDER = "XLA compiles no operation on it; use a wider one: i2, u2, or a float8 type"
# What becomes another dtype without `jax_enable_x64`.
NARROWED = {dtype.name: dtype.narrowed for dtype in _TABLE if dtype.narrowed}


def long_dtype(name: str) -> str:
    """Return the long name of a dtype from its short or long name; ValueError if unknown."""
    if name in DTYPES:
        return name
    if name in BY_SHORT:
        return BY_SHORT[name].name
    if name in UNUSABLE or name in UNUSABLE.values():
        msg = f"dtype {name!r}: {WIDER}"
        raise ValueError(msg)
    # A late import: a cold start pays for it, and only errors need it.
    from aotbuild.format.words import did_you_mean

    hint = did_you_mean(name, BY_SHORT)
    msg = f"unknown dtype {name!r}{hint}; known: {', '.join(BY_SHORT)}"
    raise ValueError(msg)
