"""Selecting: every requirement has its reason, and the best executable comes first.

Hosts and records are plain data, so all platforms are here and none of their hardware.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.hosts import ALL_V4, CPU, HOSTS, NEEDS_CUDA, NEEDS_V5E, PORTABLE, RECORDS, record

from aotbuild.format.record import CustomCall, Record
from aotbuild.platforms.base import Host
from aotbuild.runtime.compatibility import Grade, refusal_trace, select

OPTIMAL = "OPTIMAL"
H100 = "NVIDIA H100 80GB HBM3"

# (host, record, grade or reason, reason of an OK)
TABLE = [
    # CPU levels, from the top down, and what is used beyond one.
    ("v4", "v4", OPTIMAL),
    ("v4", "v3", "OK: this CPU could use x86-64-v4"),
    ("v3", "v3", OPTIMAL),
    ("v3", "v2", "OK: this CPU could use x86-64-v3"),
    ("v3", "v4", f"isa: x86-64-v4 needs {ALL_V4}, which this CPU (x86_64) lacks"),
    ("v2", "v3", ("isa: x86-64-v3 needs abm, avx2, bmi1, bmi2, f16c, fma, movbe, xsave, which this "
     "CPU (x86_64) lacks")),
    ("v3", "v3+gfni", "features: the code uses gfni, which this CPU lacks"),
    ("v3+gfni", "v3+gfni", OPTIMAL),
    ("v4+gfni", "v3+gfni", "OK: this CPU could use x86-64-v4"),
    ("v4", "v3+gfni", "features: the code uses gfni, which this CPU lacks"),
    ("silent cpu", "v2", ("isa: x86-64-v2+avx needs avx, cx16, lahf_lm, pni, popcnt, sse4_1, "
     "sse4_2, ssse3; this system does not say what its CPU has")),
    ("arm", "arm", OPTIMAL),
    ("arm", "v3", "isa: x86-64-v3 needs x86_64, which this CPU (aarch64) lacks"),
    ("v3", "arm", "isa: aarch64 needs aarch64, which this CPU (x86_64) lacks"),
    # CPU devices and versions.
    ("8 cpus", "4 cpus", OPTIMAL),
    ("v3", "4 cpus", ("devices: expected 4, found 1 "
     "(XLA_FLAGS=--xla_force_host_platform_device_count=4 makes more)")),
    ("on 1 of 8 cpus", "4 cpus", "devices: expected 4, found 1, which on(…) names"),
    ("x64", "v3", ("jax_enable_x64: expected False, found True "
     "(config: {jax_enable_x64: true} in the manifest compiles with it)")),
    ("other jaxlib", "v3", "jaxlib: expected 1.2.3, found 1.2.4"),
    # GPUs.
    ("h200", "h200", OPTIMAL),
    ("h100", "h200", f"OK: made for NVIDIA H200, this is {H100}"),
    ("b200", "h200", "compute capability: expected 9.0a, found 10.0a (NVIDIA B200)"),
    ("a10g", "h200", "compute capability: expected 9.0a, found 8.6 (NVIDIA A10G)"),
    ("other plugin", "h200", "jax-cuda13-pjrt: expected 1.2.3, found 1.2.4"),
    ("cuda 12", "h200", "jax-cuda13-pjrt: expected 1.2.3, found jax-cuda12-pjrt 1.2.3"),
    ("no plugin", "h200", "jax-cuda13-pjrt: expected 1.2.3, found none"),
    ("old driver", "h200", "cuda driver: expected 13.0 or newer, found 12.8"),
    ("old cuda", "h200", "cuda: expected 13.0 or newer, found 12.9"),
    (
        "old cuda and driver",
        "h200",
        "cuda: expected 13.0 or newer, found 12.9; cuda driver: expected 13.0 or newer, found 12.9",
    ),
    ("old cudnn", "h200", "cudnn: expected 9.10 or newer, found 9.8.0"),
    ("no cudnn", "h200", "cudnn: expected 9.10 or newer, found none"),
    ("8 h200", "8 h200", OPTIMAL),
    ("8 h200", "h200", OPTIMAL),
    ("h200", "8 h200", "devices: expected 8, found 1"),
    ("2 processes of 4 h200", "h200", OPTIMAL),
    ("2 processes of 4 h200", "2 processes of 4 h200", OPTIMAL),
    ("2 processes of 4 h200", "8 h200", "devices: expected 8, found 4"),
    ("8 h200", "2 processes of 4 h200", "processes: expected 2, found 1"),
    ("v3", "h200", "platform: expected cuda, found cpu"),
    ("v5e:2x2", "h200", "platform: expected cuda, found tpu"),
    # TPUs.
    ("v5e:2x2", "v5e", "OK: made for a slice of 1x1, this is one of 2x2"),
    ("v5e:2x4@2", "v5e", "OK: made for a slice of 1x1, this is one of 2x4"),
    ("v6e:2x2", "v5e", "device kind: expected TPU v5 lite, found TPU v6 lite"),
    ("other libtpu", "v5e", "libtpu: expected 0.0.42, found 0.0.41"),
    ("v5e:2x2", "v5e:2x2", OPTIMAL),
    ("v5e:2x4", "v5e:2x2", "topology: expected 2x2, found 2x4"),
    ("v5e:2x4", "v5e:2x4", OPTIMAL),
    ("v5e:2x4@2", "v5e:2x4@2", OPTIMAL),
    ("v5e:2x4@2", "v5e:2x4", "devices: expected 8, found 4"),
    ("v5e:2x4", "v5e:2x4@2", "processes: expected 2, found 1"),
    ("h200", "v5e", "platform: expected tpu, found cuda"),
    # Portable.
    ("v3", "portable", PORTABLE),
    ("v5e:2x2", "portable", f"{PORTABLE}; platform: expected cpu or cuda, found tpu"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "what", "expected"), TABLE)
def test_verdict(where: str, what: str, expected: str) -> None:
    (verdict,) = select([RECORDS[what]], HOSTS[where])
    grade = expected if expected == OPTIMAL else "OK" if expected.startswith("OK: ") else "REFUSED"
    why = "" if expected == OPTIMAL else f": {expected.removeprefix('OK: ')}"
    assert str(verdict) == f"f {RECORDS[what].target}: {grade}{why}"
    assert verdict.fits == (grade != "REFUSED")


@pytest.mark.parametrize(
    ("where", "best"),
    [
        ("v2", ["v2"]),
        ("v3", ["v3", "v2"]),
        ("v3+gfni", ["v3+gfni", "v3", "v2"]),
        ("v4", ["v4", "v3", "v2"]),
        ("v4+gfni", ["v4", "v3+gfni", "v3", "v2"]),
        ("8 cpus", ["v3", "4 cpus", "v2"]),
        ("arm", ["arm"]),
        ("h100", ["h200"]),
        ("v6e:2x2", []),
    ],
)
def test_levels_from_the_top_down(where: str, best: list[str]) -> None:
    names = {id(each): name for name, each in RECORDS.items()}
    verdicts = select(RECORDS.values(), HOSTS[where])
    assert [names[id(v.record)] for v in verdicts if v.fits] == best
    own = [HOSTS[where].platform in v.record.requires.platforms for v in verdicts]
    assert own == sorted(own, reverse=True), "other platforms are the last"


def test_the_named_gpu_comes_first() -> None:
    h100 = record("cuda:h100-sxm:1", **{**NEEDS_CUDA, "device_kinds": (H100,)})
    for where, first in (("h200", RECORDS["h200"]), ("h100", h100)):
        verdicts = select([h100, RECORDS["h200"]], HOSTS[where])
        assert [v.grade for v in verdicts] == [Grade.OPTIMAL, Grade.OK]
        assert verdicts[0].record is first


def test_the_slice_that_code_for_one_tpu_was_made_for_comes_first() -> None:
    whole = record("tpu:v5e:2x2:1", **NEEDS_V5E)
    verdicts = select([RECORDS["v5e"], whole], HOSTS["v5e:2x2"])
    assert [(v.record is whole, v.grade) for v in verdicts] == [
        (True, Grade.OPTIMAL),
        (False, Grade.OK),
    ]


@pytest.mark.parametrize(
    ("where", "requires", "reason"),
    [
        ("v3", {"isa": "x86-64-v9"}, "isa: x86-64-v9 is unknown to this aotbuild"),
        ("v3", {"features": ("zap",)}, "features: the code uses zap, which this CPU lacks"),
        ("v3", {"processes": 0}, "processes: 0 cannot share 1 devices"),
        ("v3", {"processes": 3}, "processes: 3 cannot share 1 devices"),
        ("v3", {"plugin": ("a", "b")}, "a: expected b, found none"),
        ("h200", {"capability": "x"}, "compute capability: expected x, found 9.0a (NVIDIA H200)"),
        ("h200", {"capability": None}, ("compute capability: expected one, which the record does "
         "not name, found 9.0a (NVIDIA H200)")),
        ("h200", {"cuda": "abc"}, "cuda: abc is no version that this aotbuild can compare"),
        ("h200", {"cuda": "9" * 5000}, "can compare"),
        ("h200", {"cudnn": ""}, "cudnn:  is no version that this aotbuild can compare"),
        ("v5e:2x2", {"topology": "2xx"}, "topology: 2xx is none that this aotbuild knows"),
        ("v5e:2x2", {"device_kinds": ()}, ("device kind: the record does not say for which tpu "
         "it is")),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_words(where: str, requires: Any, reason: str) -> None:
    target = {"cpu": "v3", "cuda": "h200", "tpu": "v5e"}[HOSTS[where].platform]
    made = RECORDS[target]
    made = dataclasses.replace(made, requires=dataclasses.replace(made.requires, **requires))
    (verdict,) = select([made], HOSTS[where])
    assert verdict.grade is Grade.REFUSED
    assert any(found.endswith(reason) for found in verdict.reasons), verdict.reasons


def test_custom_calls() -> None:
    calls = (CustomCall("other", "user"), CustomCall("mine", "user"))
    (verdict,) = select([record(custom_calls=calls)], CPU)
    (reason,) = verdict.reasons
    assert reason.startswith("custom calls not registered: other; import the package that")
    # XLA has no list of them to ask.
    assert select([record(custom_calls=calls)], dataclasses.replace(CPU, custom_calls=None))[0].fits
    calls = (CustomCall("TopK", "xla"), CustomCall("lapack_ssyevd_ffi", "jax"))
    assert select([record(custom_calls=calls)], CPU)[0].fits


class TestTrace:
    """What an error shows of the verdicts."""

    def trace(self, where: Host, *records: Record) -> list[str]:
        return refusal_trace(select(records, where), where)

    def test_the_jaxlibs_that_are_shipped_are_said_once(self) -> None:
        records = [
            record(f"cpu:{level}:1", jaxlib=jaxlib)
            for jaxlib in ("0.12.0.1", "0.10.2", "0.9.1")
            for level in ("x86-64-v3", "x86-64-v4")
        ]
        third = dataclasses.replace(CPU, jaxlib="0.11.0")
        assert self.trace(third, *records) == [
            (
                "every executable for cpu: REFUSED: jaxlib: expected 0.9.1 or 0.10.2 or 0.12.0.1, "
                "found 0.11.0"
            ),
            (
                f"cpu: 3 executables for x86-64-v4: REFUSED: isa: x86-64-v4 needs {ALL_V4}, which "
                "this CPU (x86_64) lacks"
            ),
        ]
