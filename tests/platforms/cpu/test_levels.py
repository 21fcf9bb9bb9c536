"""CPU levels: what they are, what a host has of them, and what a plan makes of them."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from jaxlib.version import __version__ as jaxlib_version
from support.manifests import manifest
from support.processes import fresh

from aotbuild.build.jobs import make_jobs
from aotbuild.build.plan import Plan, make_plan
from aotbuild.errors import PlanError
from aotbuild.format.target import Target
from aotbuild.platforms.building import Hardware
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.checks import LEVELS, best_level, level_of
from aotbuild.platforms.cpu.compile import PLATFORM
from aotbuild.platforms.cpu.describe import cross_compiles
from aotbuild.platforms.cpu.host import Cpuid
from aotbuild.toolchains.toolchain import Environment, Toolchain

V4 = level_of("x86-64-v4")
X86 = [level for level in LEVELS.values() if level.architecture == "x86_64"]
CROSS = cross_compiles(jaxlib_version)
HOST = cpuinfo.features()
IS_X86 = cpuinfo.architecture() == "x86_64"


class TestTable:
    def test_each_level_has_all_of_the_one_below(self) -> None:
        assert [level.name for level in X86] == [
            "x86-64-v2+avx",
            "x86-64-v3",
            "x86-64-v4",
            "x86-64-v4+vnni",
            "x86-64-v4+bf16",
            "x86-64-v4+amx",
        ]
        for below, level in pairwise(X86):
            assert below.features < level.features

    def test_every_feature_of_a_level_can_be_asked_of_the_cpu(self) -> None:
        assert set().union(*(level.features for level in X86)) <= cpuinfo._ASKED

    @pytest.mark.parametrize("level", X86[2:], ids=lambda level: level.name)
    def test_llvm_is_told_of_what_is_above_v4(self, level: Any) -> None:
        told = {part.removeprefix("+") for part in level.llvm_features.split(",") if part}
        expected = level.features - V4.features
        assert {name.replace("-", "_") for name in told} == {
            name.replace("avx512_", "avx512") for name in expected
        }

    @pytest.mark.parametrize(
        ("more", "level"),
        [
            ((), "x86-64-v4"),
            (("gfni", "avx512vbmi"), "x86-64-v4"),
            (("avx512_bf16",), "x86-64-v4"),
            (("avx512_vnni",), "x86-64-v4+vnni"),
            (("avx512_vnni", "avx512_bf16"), "x86-64-v4+bf16"),
            (("avx512_vnni", "avx512_bf16", "amx_tile"), "x86-64-v4+bf16"),
            (("avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"), "x86-64-v4+amx"),
        ],
    )
    def test_the_best_level_of_a_host(self, more: tuple[str, ...], level: str) -> None:
        assert best_level("x86_64", V4.features | set(more)) == level


class FakeLibrary:
    """A C library with the answers of a CPU: by leaf, EAX to EDX that are there, and usable."""

    def __init__(self, leaves: dict[int, tuple[list[int], list[int]]]) -> None:
        def leaf(index: int) -> Any:
            present, active = leaves.get(index, ([0] * 4, [0] * 4))
            return SimpleNamespace(contents=SimpleNamespace(present=present, active=active))

        self.__x86_get_cpuid_feature_leaf = leaf

    def __getattr__(self, name: str) -> Any:
        # Inside a class, Python writes a name with two underscores in another way.
        mangled = f"_FakeLibrary{name}"
        if mangled in vars(self):
            return vars(self)[mangled]
        raise AttributeError(name)


class TestCpuid:
    def test_bits_become_names(self) -> None:
        leaves = {
            0: ([0, 0, 1 << 28 | 1 << 12 | 1, 0], [0, 0, 1 << 28 | 1, 0]),
            1: ([0, 1 << 5 | 1 << 16, 1 << 8, 1 << 24], [0, 1 << 5, 1 << 8, 0]),
            2: ([0, 0, 1 << 5, 0], [0, 0, 1 << 5, 0]),
            6: ([1 << 5, 0, 0, 0], [1 << 5, 0, 0, 0]),
        }
        found = cpuinfo.read_cpuid(FakeLibrary(leaves))
        usable = {"avx", "pni", "avx2", "gfni", "abm", "avx512_bf16"}
        assert found == Cpuid(frozenset(usable | {"fma", "avx512f", "amx_tile"}), frozenset(usable))

    def test_a_library_that_does_not_tell(self) -> None:
        assert cpuinfo.read_cpuid(SimpleNamespace()) is None

    @pytest.mark.skipif(not IS_X86 or "avx2" not in HOST, reason="masks a feature of the CPU")
    @pytest.mark.process
    def test_what_glibc_is_told_to_leave_is_not_there(self, tmp_path: Any) -> None:
        if cpuinfo.read_cpuid() is None:
            pytest.skip("this C library does not tell")
        code = (
            "import json; from aotbuild.platforms.cpu import host as cpuinfo\n"
            "print(json.dumps([*cpuinfo.features()]))"
        )
        found = fresh(code, GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2")
        assert HOST - set(found) == {"avx2"}


class TestUsable:
    ASKED = Cpuid(frozenset({"avx", "avx2", "amx_tile"}), frozenset({"avx", "avx2"}))

    def test_both_tell_of_one_cpu(self) -> None:
        listed = frozenset({"avx", "avx2", "amx_tile", "constant_tsc"})
        assert cpuinfo.usable_features(self.ASKED, listed) == {"avx", "avx2", "constant_tsc"}

    def test_what_the_kernel_took_away(self) -> None:
        assert cpuinfo.usable_features(self.ASKED, frozenset({"avx"})) == {"avx"}

    def test_the_list_of_another_machine(self) -> None:
        listed = frozenset({"avx", "avx512f", "gfni", "clzero"})
        assert cpuinfo.usable_features(self.ASKED, listed) == {"avx", "avx2"}

    def test_only_one_of_them_tells(self) -> None:
        assert cpuinfo.usable_features(self.ASKED, frozenset()) == {"avx", "avx2"}
        assert cpuinfo.usable_features(None, frozenset({"avx"})) == {"avx"}


OLD, NEW = (Toolchain(version, version, "3.13.1") for version in ("0.10.2", "0.12.0"))
ANY = "targets: [cpu: {isa: [x86-64-v3, x86-64-v4+amx]}]\n"


def plan(text: str, *toolchains: Toolchain, architecture: str = "x86_64") -> Plan:
    isa = "x86-64-v3" if architecture == "x86_64" else "aarch64"
    return make_plan(manifest(text), Environment(toolchains, architecture, isa, "any", "0.1"))


class TestPlan:
    def test_an_older_jax_makes_no_level_above_the_machine(self) -> None:
        with pytest.raises(PlanError) as caught:
            plan(ANY, OLD)
        assert str(caught.value) == (
            "aot.yaml: targets: cpu: ISA level x86-64-v4+amx is above this machine's x86-64-v3; "
            "build on a machine that has it, or with jax 0.11.2 or later, which can on any"
        )

    def test_a_level_below_what_jaxlib_needs(self) -> None:
        with pytest.raises(PlanError) as caught:
            plan("targets: [cpu: {isa: x86-64-v2+avx}]\n", NEW)
        assert str(caught.value) == (
            "aot.yaml: targets: cpu: ISA level x86-64-v2+avx lacks avx2, bmi2, f16c, fma, without "
            "which jaxlib 0.12.0 refuses to be imported; name a higher level, or compile with jax "
            "0.11.2 or older"
        )

    def test_a_newer_one_makes_any_level_in_one_process(self) -> None:
        ((settings, job, _),) = make_jobs(plan(ANY, NEW).units)
        assert settings.cap is None
        assert "max_isa" not in settings.xla_flags
        assert list(map(str, job.targets)) == ["cpu:x86-64-v3:1", "cpu:x86-64-v4+amx:1"]

    def test_below_a_cap_each_level_has_its_process(self) -> None:
        text = "targets: [cpu: {isa: [x86-64-v2+avx, x86-64-v3]}]\n"
        flags = [settings.xla_flags for settings, _, _ in make_jobs(plan(text, OLD).units)]
        assert [flag.rpartition("=")[2] for flag in flags] == ["AVX", "AVX2"]


class TestPlatform:
    def test_below_a_cap_an_arm_executable_requires_all_of_the_machine(self) -> None:
        target = Target("cpu", "aarch64")
        found = PLATFORM.requirements(target, Hardware(), b"kLoop", "")
        assert found == {"isa": "aarch64", "features": [] if CROSS else sorted(HOST)}

    def test_what_of_the_machine_is_in_the_bytes(self) -> None:
        below_a_cap = [] if CROSS else [cpuinfo.architecture(), sorted(HOST)]
        assert PLATFORM.deciding_facts(Hardware()) == below_a_cap
