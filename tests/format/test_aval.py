"""Avals and targets: one spelling each, read back as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotbuild.format.aval import Aval, parse_spec
from aotbuild.format.dtypes import DTYPES
from aotbuild.format.target import Target
from aotbuild.platforms.cpu import host as cpuinfo

dtypes = st.sampled_from(sorted(DTYPES))
shapes = st.lists(st.integers(0, 10**6), max_size=5).map(tuple)


@given(shapes, dtypes, st.booleans())
def test_aval_round_trip(shape: tuple[int, ...], dtype: str, weak: bool) -> None:
    weak = weak and not dtype.startswith("key<")  # `1.0 < x` is weakly typed, too
    aval = Aval(shape, dtype, weak)
    assert Aval.parse(str(aval)) == aval


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f32",
        "f32[",
        "f32[2",
        "g32[2]",
        "f32[-1]",
        "f32[2,]",
        "f32[a b]",
        "f32[2][3]",
        "~key<fry>[]",
        "f32[٣]",
        "f32[1.5]",
        "f32[9999999999999999999999]",
    ],
)
def test_wrong_specs_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_spec(text)


def test_aval_needs_sizes() -> None:
    with pytest.raises(ValueError, match="named dim"):
        Aval.parse("f32[batch]")


@pytest.mark.parametrize(
    "text",
    [
        "cpu:x86-64-v4:1",
        "cpu:aarch64:8",
        "portable:cpu,cuda,tpu:2",
        "cuda:h100:1",
        "tpu:v5e:4x4:16@4",
    ],
)
def test_target_round_trip(text: str) -> None:
    assert str(Target.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cpu",
        "cpu:native:1",
        "cpu:x86-64-v4:0",
        "cuda:\n:1",
        "cuda:h100:3@2",
        "cuda:h100:2@1",
        "cuda:h100:2@",
        "cpu:x86-64-v4:1:1",
        "portable:tpu,cpu:1",
        "portable::1",
        "vpu:x:1",
        "a.b:x:1",
        ":x:1",
        "cpu.isa:x:1",
    ],
)
def test_wrong_targets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Target.parse(text)


def test_cpuinfo_keeps_what_every_cpu_has() -> None:
    text = "processor : 0\nflags\t: avx avx2\n\nprocessor : 1\nflags\t: avx fma\n"
    assert cpuinfo.parse_cpuinfo(text) == {"avx"}
    assert cpuinfo.parse_cpuinfo("Features : fp asimd\n") == {"fp", "asimd"}
    assert cpuinfo.parse_cpuinfo("") == frozenset()
