"""Selecting: every requirement has its reason, and the best executable comes first."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from aotbuild.runtime.host import Host
from aotbuild.runtime.select import Grade, select
from aotbuild.spec.aval import Aval
from aotbuild.spec.isa import LEVELS
from aotbuild.spec.record import Blob, Calling, CustomCall, Record, Requirements
from aotbuild.spec.signature import Signature
from aotbuild.spec.target import Target

HOST = Host(
    platform="cpu",
    device_count=1,
    device_kinds=("cpu",),
    process_count=1,
    architecture="x86_64",
    features=LEVELS["x86-64-v3"].features,
    jaxlib="1.2.3",
    x64=False,
    custom_calls=frozenset({"mine"}),
)


def record(target: str = "cpu:x86-64-v3:1", **requires: Any) -> Record:
    parsed = Target.parse(target)
    defaults = {
        "platforms": parsed.platforms,
        "isa": parsed.detail if parsed.platform == "cpu" else None,
        "jaxlib": "1.2.3",
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


def test_the_highest_level_that_fits_is_optimal_and_first() -> None:
    names = ("x86-64-v2+avx", "x86-64-v4", "x86-64-v3")
    verdicts = select([record(f"cpu:{name}:1") for name in names], HOST)
    assert [(v.record.target.detail, v.grade) for v in verdicts] == [
        ("x86-64-v3", Grade.OPTIMAL),
        ("x86-64-v2+avx", Grade.OK),
        ("x86-64-v4", Grade.REFUSED),
    ]
    assert verdicts[1].reasons == ("this CPU could use x86-64-v3",)
    assert "avx512bw, avx512cd, avx512dq, avx512f, avx512vl" in verdicts[2].reasons[0]


@pytest.mark.parametrize(
    ("target", "requires", "reason"),
    [
        ("cuda:h100:1", {}, "platform: expected cuda, found cpu"),
        (
            "cpu:x86-64-v3:4",
            {"devices": 4},
            (
                "devices: expected 4, found 1 "
                "(XLA_FLAGS=--xla_force_host_platform_device_count=4 makes more)"
            ),
        ),
        ("cpu:x86-64-v3:1", {"processes": 2}, "processes: expected 2, found 1"),
        ("cpu:x86-64-v3:1", {"jaxlib": "1.2.4"}, "jaxlib: expected 1.2.4, found 1.2.3"),
        ("cpu:x86-64-v3:1", {"x64": True}, "jax_enable_x64: expected True, found False"),
        (
            "cpu:x86-64-v3:1",
            {"custom_calls": (CustomCall("other", "user"), CustomCall("mine", "user"))},
            "custom calls not registered: other (user); import the package that registers them",
        ),
        ("cpu:aarch64:1", {}, "isa: aarch64 needs aarch64, which this CPU (x86_64) lacks"),
        (
            "portable:cpu:1",
            {},
            "portable: compiled at first use, and only with fallback: portable",
        ),
    ],
)
def test_each_requirement_has_a_reason(target: str, requires: Any, reason: str) -> None:
    (verdict,) = select([record(target, **requires)], HOST)
    assert (verdict.grade, verdict.reasons) == (Grade.REFUSED, (reason,))
    assert str(verdict) == f"f {target}: REFUSED: {reason}"


def test_all_reasons_are_collected() -> None:
    (verdict,) = select([record(jaxlib="9", x64=True, processes=3)], HOST)
    assert len(verdict.reasons) == 3


def test_an_unknown_level_and_an_unreadable_cpu_are_refused() -> None:
    (unknown,) = select([record(isa="x86-64-v9")], HOST)
    assert unknown.reasons == ("isa: x86-64-v9 is unknown to this aotbuild",)
    (silent,) = select([record()], dataclasses.replace(HOST, features=frozenset()))
    assert "does not say what its CPU has" in silent.reasons[0]


def test_what_jaxlib_provides_is_registered() -> None:
    calls = (CustomCall("TopK", "xla"), CustomCall("lapack_ssyevd_ffi", "lapack"))
    assert select([record(custom_calls=calls)], HOST)[0].fits
    without = dataclasses.replace(HOST, lapack=False)
    assert not select([record(custom_calls=calls)], without)[0].fits


def test_selecting_imports_no_jax() -> None:
    code = "import sys, aotbuild.runtime.select; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
