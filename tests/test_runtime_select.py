"""Selecting: every requirement has its reason, and the best executable comes first.

Hosts and records are plain data, so all platforms are here and none of their hardware.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from aotbuild.runtime.host import Host
from aotbuild.runtime.refusals import refusal_trace
from aotbuild.runtime.select import Grade, portable_reasons, select
from aotbuild.spec.aval import Aval
from aotbuild.spec.isa import LEVELS
from aotbuild.spec.record import Blob, Calling, CustomCall, Record, Requirements
from aotbuild.spec.signature import Signature
from aotbuild.spec.target import Target

V3 = LEVELS["x86-64-v3"].features
PLUGIN = ("jax-cuda13-pjrt", "1.2.3")
LIBTPU = ("libtpu", "0.0.42")


def host(platform: str, devices: int, kind: str, **facts: Any) -> Host:
    defaults: dict[str, Any] = {
        "process_count": 1,
        "architecture": "x86_64",
        "features": V3,
        "jaxlib": "1.2.3",
        "x64": False,
    }
    return Host(platform, devices, (kind,), **{**defaults, **facts})


def gpu(kind: str, capability: str, devices: int = 1, **facts: Any) -> Host:
    defaults = {"plugins": (PLUGIN,), "cuda": "13.1", "driver": "13.2", "cudnn": "9.12.0"}
    return host("cuda", devices, kind, capability=capability, **{**defaults, **facts})


def tpu(kind: str, topology: str, devices: int, **facts: Any) -> Host:
    return host("tpu", devices, kind, topology=topology, plugins=(LIBTPU,), **facts)


CPU = host("cpu", 1, "cpu", custom_calls=frozenset({"mine"}))
HOSTS = {
    "v2": dataclasses.replace(CPU, features=LEVELS["x86-64-v2+avx"].features),
    "v3": CPU,
    "v3+gfni": dataclasses.replace(CPU, features=V3 | {"gfni"}),
    "v4": dataclasses.replace(CPU, features=LEVELS["x86-64-v4"].features),
    "v4+gfni": dataclasses.replace(CPU, features=LEVELS["x86-64-v4"].features | {"gfni"}),
    "8 cpus": dataclasses.replace(CPU, device_count=8),
    "on 1 of 8 cpus": dataclasses.replace(CPU, named=True),
    "silent cpu": dataclasses.replace(CPU, features=frozenset()),
    "arm": dataclasses.replace(CPU, architecture="aarch64", features=frozenset({"asimd"})),
    "x64": dataclasses.replace(CPU, x64=True),
    "other jaxlib": dataclasses.replace(CPU, jaxlib="1.2.4"),
    "h200": gpu("NVIDIA H200", "9.0a"),
    "8 h200": gpu("NVIDIA H200", "9.0a", 8),
    "h100": gpu("NVIDIA H100 80GB HBM3", "9.0a"),
    "b200": gpu("NVIDIA B200", "10.0a"),
    "a10g": gpu("NVIDIA A10G", "8.6"),
    "old driver": gpu("NVIDIA H200", "9.0a", driver="12.8"),
    "old cuda": gpu("NVIDIA H200", "9.0a", cuda="12.9"),
    "old cuda and driver": gpu("NVIDIA H200", "9.0a", cuda="12.9", driver="12.9"),
    "old cudnn": gpu("NVIDIA H200", "9.0a", cudnn="9.8.0"),
    "no cudnn": gpu("NVIDIA H200", "9.0a", cudnn=None),
    "other plugin": gpu("NVIDIA H200", "9.0a", plugins=(("jax-cuda13-pjrt", "1.2.4"),)),
    "cuda 12": gpu("NVIDIA H200", "9.0a", plugins=(("jax-cuda12-pjrt", "1.2.3"),)),
    "no plugin": gpu("NVIDIA H200", "9.0a", plugins=()),
    "2 processes of 4 h200": gpu("NVIDIA H200", "9.0a", 4, process_count=2, devices_everywhere=8),
    "v5e:2x2": tpu("TPU v5 lite", "2x2x1", 4),
    "v5e:2x4": tpu("TPU v5 lite", "2x4x1", 8),
    "v5e:2x4@2": tpu("TPU v5 lite", "2x4x1", 4, process_count=2, devices_everywhere=8),
    "v6e:2x2": tpu("TPU v6 lite", "2x2x1", 4),
    "other libtpu": dataclasses.replace(
        tpu("TPU v5 lite", "2x2x1", 4), plugins=(("libtpu", "0.0.41"),)
    ),
}
_CUDA = {
    "device_kinds": ("NVIDIA H200",),
    "capability": "9.0a",
    "plugin": PLUGIN,
    "cuda": "13.0",
    "cudnn": "9.10",
}
_V5E = {"device_kinds": ("TPU v5 lite",), "plugin": LIBTPU}


def record(target: str = "cpu:x86-64-v3:1", **requires: Any) -> Record:
    parsed = Target.parse(target)
    is_native = not parsed.is_portable
    defaults = {
        "platforms": parsed.platforms,
        "devices": parsed.devices,
        "processes": parsed.processes,
        "isa": parsed.detail if parsed.platform == "cpu" else None,
        "jaxlib": "1.2.3" if is_native else None,
    }
    aval = Aval((2,), "float32")
    tree = ["tuple", ["tuple", "*"], ["dict", []]]
    return Record(
        "f",
        Signature(tree, (aval,)),
        parsed,
        Blob("pjrt", "0" * 64, 1),
        Requirements(**{**defaults, **requires}),
        Calling("f", (), (0,), (), (), (aval,), (), "*"),
    )


RECORDS = {
    "v2": record("cpu:x86-64-v2+avx:1"),
    "v3": record("cpu:x86-64-v3:1"),
    "v3+gfni": record("cpu:x86-64-v3:1", features=("gfni",)),
    "v4": record("cpu:x86-64-v4:1"),
    "4 cpus": record("cpu:x86-64-v3:4"),
    "arm": record("cpu:aarch64:1"),
    "h200": record("cuda:h200:1", **_CUDA),
    "8 h200": record("cuda:h200:8", **_CUDA),
    "2 processes of 4 h200": record("cuda:h200:8@2", **_CUDA),
    "v5e": record("tpu:v5e:1x1:1", **_V5E),
    "v5e:2x2": record("tpu:v5e:2x2:4", topology="2x2", **_V5E),
    "v5e:2x4": record("tpu:v5e:2x4:8", topology="2x4", **_V5E),
    "v5e:2x4@2": record("tpu:v5e:2x4:8@2", topology="2x4", **_V5E),
    "portable": record("portable:cpu,cuda:1"),
}
OPTIMAL, OK = "OPTIMAL", "OK"
ALL_V4 = "avx512bw, avx512cd, avx512dq, avx512f, avx512vl"
PORTABLE = "portable: compiled at first use, and only with fallback: portable"
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
    ("x64", "v3", "jax_enable_x64: expected False, found True"),
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


def test_the_table_is_complete() -> None:
    assert {where for where, *_ in TABLE} == set(HOSTS)
    assert {what for _, what, _ in TABLE} == set(RECORDS)


@pytest.mark.parametrize("where", HOSTS)
@pytest.mark.parametrize("what", RECORDS)
def test_another_platform_is_the_only_reason(where: str, what: str) -> None:
    (verdict,) = select([RECORDS[what]], HOSTS[where])
    if HOSTS[where].platform not in RECORDS[what].requires.platforms:
        expected = 2 if RECORDS[what].target.is_portable else 1
        assert len(verdict.reasons) == expected


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
    h100 = record("cuda:h100-sxm:1", **{**_CUDA, "device_kinds": (H100,)})
    for where, first in (("h200", RECORDS["h200"]), ("h100", h100)):
        verdicts = select([h100, RECORDS["h200"]], HOSTS[where])
        assert [v.grade for v in verdicts] == [Grade.OPTIMAL, Grade.OK]
        assert verdicts[0].record is first


def test_the_slice_that_code_for_one_tpu_was_made_for_comes_first() -> None:
    whole = record("tpu:v5e:2x2:1", **_V5E)
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
        ("v3", {"processes": -1}, "processes: -1 cannot share 1 devices"),
        ("v3", {"processes": 3}, "processes: 3 cannot share 1 devices"),
        ("v3", {"plugin": ("a", "b")}, "a: expected b, found none"),
        ("v3", {"topology": "2x2"}, "topology: expected 2x2, found none"),
        ("h200", {"capability": "x"}, "compute capability: expected x, found 9.0a (NVIDIA H200)"),
        ("h200", {"capability": None}, ("compute capability: expected one, which the record does "
         "not name, found 9.0a (NVIDIA H200)")),
        ("h200", {"cuda": "abc"}, "cuda: abc is no version that this aotbuild can compare"),
        ("h200", {"cuda": "9" * 5000}, "can compare"),
        ("h200", {"cuda": "13.٣"}, "cuda: 13.٣ is no version that this aotbuild can compare"),
        ("h200", {"cudnn": ""}, "cudnn:  is no version that this aotbuild can compare"),
        ("v5e:2x2", {"topology": "2xx"}, "topology: 2xx is none that this aotbuild knows"),
        ("v5e:2x2", {"topology": "0x9"}, "topology: 0x9 is none that this aotbuild knows"),
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


@pytest.mark.parametrize("needed", ["13", "13.0", "13.0.0", "13.1", "12.9.9", "9"])
def test_versions_are_compared_by_number(needed: str) -> None:
    made = record("cuda:h200:1", **{**_CUDA, "cuda": needed})
    assert select([made], HOSTS["h200"])[0].fits


def test_custom_calls() -> None:
    calls = (CustomCall("other", "user"), CustomCall("mine", "user"))
    (verdict,) = select([record(custom_calls=calls)], CPU)
    assert verdict.reasons == (
        "custom calls not registered: other (user); import the package that registers them",
    )
    calls = (CustomCall("TopK", "xla"), CustomCall("lapack_ssyevd_ffi", "lapack"))
    assert select([record(custom_calls=calls)], CPU)[0].fits
    without = dataclasses.replace(CPU, lapack=False)
    assert not select([record(custom_calls=calls)], without)[0].fits


def test_all_reasons_are_collected() -> None:
    (verdict,) = select([record(jaxlib="9", x64=True, features=("gfni",))], CPU)
    assert len(verdict.reasons) == 3


def test_what_keeps_a_portable_record_from_being_compiled() -> None:
    assert portable_reasons(RECORDS["portable"], CPU) == ()
    assert portable_reasons(RECORDS["portable"], HOSTS["h200"]) == ()
    assert portable_reasons(RECORDS["portable"], HOSTS["v5e:2x2"]) == (
        "platform: expected cpu or cuda, found tpu",
    )


class TestTrace:
    """What an error shows of the verdicts."""

    def trace(self, where: Host, *records: Record) -> list[str]:
        return refusal_trace(select(records, where), where)

    def test_a_single_record_is_its_verdict(self) -> None:
        (verdict,) = select([RECORDS["v4"]], CPU)
        assert self.trace(CPU, RECORDS["v4"]) == [str(verdict)]
        (verdict,) = select([RECORDS["h200"]], CPU)
        assert self.trace(CPU, RECORDS["h200"]) == [str(verdict)]

    def test_other_platforms_share_a_line(self) -> None:
        h100 = record("cuda:h100-sxm:1", **_CUDA)
        old = record("cuda:h200:1", jaxlib="1.2.2", **_CUDA)
        names = ("v4", "h200", "v5e:2x2", "8 h200", "portable")
        found = self.trace(CPU, h100, old, *(RECORDS[name] for name in names))
        assert found == [
            (
                f"f cpu:x86-64-v4:1: REFUSED: isa: x86-64-v4 needs {ALL_V4}, "
                "which this CPU (x86_64) lacks"
            ),
            f"f portable:cpu,cuda:1: REFUSED: {PORTABLE}",
            (
                "cuda: 4 executables for h100-sxm, h200, h200:8: REFUSED: "
                "platform: expected cuda, found cpu"
            ),
            "f tpu:v5e:2x2:4: REFUSED: platform: expected tpu, found cpu",
        ]

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

    def test_a_jaxlib_that_is_shipped_is_no_reason_for_the_others(self) -> None:
        records = [
            record("cpu:x86-64-v4:1"),
            record("cpu:x86-64-v3:1", jaxlib="9"),
            record("cpu:x86-64-v2+avx:1", jaxlib="9"),
        ]
        assert self.trace(CPU, *records) == [
            (
                f"f cpu:x86-64-v4:1: REFUSED: isa: x86-64-v4 needs {ALL_V4}, which this CPU "
                "(x86_64) lacks"
            ),
            (
                "cpu: 2 executables for x86-64-v3, x86-64-v2+avx: REFUSED: jaxlib: expected 9, "
                "found 1.2.3"
            ),
        ]

    def test_of_another_platform_no_jaxlib_is_told(self) -> None:
        records = [record("cuda:h200:1", jaxlib=jaxlib, **_CUDA) for jaxlib in ("1", "2")]
        assert self.trace(CPU, *records) == [
            "cuda: 2 executables for h200: REFUSED: platform: expected cuda, found cpu"
        ]


def test_selecting_imports_no_jax() -> None:
    code = "import sys, aotbuild.runtime.refusals; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
