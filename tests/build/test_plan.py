"""The plan, the requirements and the sources: pure functions of a manifest and an environment."""

from __future__ import annotations

import dataclasses

import pytest
from support.manifests import ENTRY, manifest

from aotbuild.build.jobs import make_jobs
from aotbuild.build.plan import Plan, make_plan
from aotbuild.build.wheel_metadata import wheel_requirements, wheel_tag
from aotbuild.errors import PlanError
from aotbuild.toolchains.toolchain import Environment, Toolchain

ENVIRONMENT = Environment(
    toolchains=(Toolchain("0.10.2", "0.10.2", "3.11.7"),),
    architecture="x86_64",
    isa="x86-64-v3",
    wheel_platform="manylinux_2_27_x86_64",
    aotbuild="0.1.0",
)
TWO = dataclasses.replace(
    ENVIRONMENT, toolchains=(Toolchain("0.12.0.1", "0.12.0.1", "3.12.1"), *ENVIRONMENT.toolchains)
)
LINUX = '; sys_platform == "linux"'
NOT_LINUX = '; sys_platform != "linux"'
BOTH = "targets: [cpu, {portable: {platforms: [tpu, cpu]}}]\n"


def plan(extra: str = "", entry: str = ENTRY, environment: Environment = ENVIRONMENT) -> Plan:
    return make_plan(manifest(extra, entry), environment)


def refused(extra: str, environment: Environment = ENVIRONMENT) -> list[str]:
    with pytest.raises(PlanError) as caught:
        plan(extra, environment=environment)
    return [line.removeprefix("aot.yaml: ") for line in str(caught.value).splitlines()]


class TestUnits:
    def test_order_is_rows_then_statics_then_targets(self) -> None:
        entry = "call: m:f, args: [x: 'f32[n]'], dims: {n: [1, 2]}, static: {k: [1, true]}"
        assert [str(unit) for unit in plan(BOTH, entry).units] == [
            f"f(n={size}, k={value}) for {target}"
            for size in (1, 2)
            for value in ("1", "True")
            for target in ("cpu:x86-64-v3:1", "portable:cpu,tpu:1")
        ]

    def test_symbolic_dims_make_one_portable_unit(self) -> None:
        entry = "call: m:f, args: [x: 'f32[n]'], dims: {n: [1, 2]}, export: {dims: {n: b}}"
        found = [str(unit) for unit in plan(BOTH, entry).units]
        assert found.count("f(n=b) for portable:cpu,tpu:1") == 1
        assert len(found) == 3

    def test_a_portable_unit_for_each_size_that_stays(self) -> None:
        rows = "dims: {a: [1, 2], n: [8, 16]}, export: {dims: {a: b}}"
        jobs = make_jobs(plan(BOTH, f"call: m:f, args: [x: 'f32[a,n]'], {rows}").units)
        found = [(job.symbolic, job.dims) for _, job, _ in jobs if job.symbolic]
        assert found == [({"a": "b", "n": size}, {"a": 1, "n": size}) for size in (8, 16)]

    def test_a_mesh_takes_the_targets_of_its_size(self) -> None:
        text = "targets: [cpu: {devices: 4}, cpu: {devices: 1}]\n"
        units = plan(text, f"{ENTRY}, mesh: {{a: 2, b: 2}}").units
        assert [(str(unit.target), unit.devices) for unit in units] == [("cpu:x86-64-v3:4", 4)]


class TestToolchains:
    def test_native_units_for_each_and_portable_ones_by_the_oldest(self) -> None:
        units = plan(BOTH, environment=TWO).units
        assert [(str(unit), unit.toolchain.jax) for unit in units] == [
            ("f() for cpu:x86-64-v3:1 with jaxlib 0.12.0.1", "0.12.0.1"),
            ("f() for cpu:x86-64-v3:1 with jaxlib 0.10.2", "0.10.2"),
            ("f() for portable:cpu,tpu:1", "0.10.2"),
        ]

    def test_the_wheel_requires_exactly_their_versions(self) -> None:
        made = plan(BOTH, environment=TWO)
        _, jaxlib, elsewhere, jax, _, _ = wheel_requirements(made)
        assert jaxlib.startswith("jaxlib>=0.10.2,<=0.12.0.1,!=0.10.2.post0,")
        assert jaxlib.endswith(LINUX)
        assert jaxlib.replace("jaxlib", "jax", 1) == jax
        assert elsewhere == f"jaxlib>=0.10.2{NOT_LINUX}"
        portable = plan("targets: [portable]\n", environment=TWO)
        assert wheel_requirements(portable)[1] == "jaxlib>=0.10.2"


class TestRefused:
    def test_every_reason_is_given(self) -> None:
        text = "targets: [cpu: {isa: x86-64-v4}, cuda: {gpu: h200}]\ntoolchains: [{jax: 0.10.1}]\n"
        toolchains, level, plugins = refused(text)
        assert toolchains == "toolchains: expected jax 0.10.1, found 0.10.2"
        assert level.startswith(
            "targets: cpu: ISA level x86-64-v4 is above this machine's x86-64-v3; "
        )
        assert plugins.startswith("targets: cuda: jax-cuda13-plugin, jax-cuda13-pjrt, nvidia-")

    def test_two_toolchains_of_one_jaxlib(self) -> None:
        twins = tuple(Toolchain(jax, "0.10.2", "3.11.7") for jax in ("0.10.2", "0.10.2.1"))
        environment = dataclasses.replace(ENVIRONMENT, toolchains=twins)
        assert refused("toolchains: [{jax: 0.10.2}, {jax: 0.10.2.1}]\n", environment) == [
            (
                "toolchains: jaxlib 0.10.2 is that of several: nothing could tell their "
                "executables apart; keep one of them"
            )
        ]

    def test_no_target_for_a_function(self) -> None:
        assert refused("targets: [cpu: {devices: 2}]\n") == [
            (
                "functions.f: no target has its number of devices, which is 1 without a mesh; add "
                "mesh: {axis: size}, with the axes of the mesh that the function uses, or a target "
                "with devices: 1"
            )
        ]


class TestJobs:
    def test_the_shell_does_not_reach_a_worker(self) -> None:
        ((settings, _, _),) = make_jobs(plan("", f"{ENTRY}, env: {{B: '2'}}").units)
        switches = dict.fromkeys(("JAX_ENABLE_X64", "PYTHONOPTIMIZE", "PYTHONDEVMODE"), "1")
        shell = {**switches, "XLA_FLAGS": "--x", "PATH": "/b"}
        found = settings.environment(shell)
        assert (found["PATH"], found["B"], found["AOTBUILD_BUILDING"]) == ("/b", "2", "1")
        assert switches.keys() & set(found) == set()
        assert "--x " not in found["XLA_FLAGS"]


class TestRequirements:
    def test_native(self) -> None:
        made = plan(BOTH)
        assert wheel_requirements(made) == [
            "aotbuild>=0.1,<0.2",
            f"jaxlib==0.10.2{LINUX}",
            f"jaxlib>=0.10.2{NOT_LINUX}",
            f"jax==0.10.2{LINUX}",
            f"jax>=0.10.2{NOT_LINUX}",
            "flatbuffers>=24.3",
        ]
        assert wheel_tag(made) == "py3-none-manylinux_2_27_x86_64"

    def test_both_kinds_are_built_on_linux(self) -> None:
        environment = dataclasses.replace(ENVIRONMENT, wheel_platform="macosx_11_0_arm64")
        with pytest.raises(PlanError, match="expected a machine with Linux, found macosx_11_0_ar"):
            wheel_tag(plan(BOTH, environment=environment))
        assert wheel_tag(plan(environment=environment)) == "py3-none-macosx_11_0_arm64"

    def test_without_portable_forms(self) -> None:
        assert wheel_requirements(plan())[1:] == ["jaxlib==0.10.2", "jax==0.10.2"]

    def test_without_jax_at_run_time(self) -> None:
        assert "jax==0.10.2" not in wheel_requirements(plan("runtime: jaxlib\n"))

    def test_portable_alone_runs_anywhere(self) -> None:
        made = plan("targets: [portable]\n")
        assert wheel_requirements(made)[1:3] == ["jaxlib>=0.10.2", "jax>=0.10.2"]
        assert wheel_tag(made) == "py3-none-any"

    @pytest.mark.parametrize(
        ("version", "expected"),
        [("0.3.7", ">=0.3,<0.4"), ("1.2.3.dev4", ">=1.2,<2"), ("2", ">=2.0,<3")],
    )
    def test_a_compatible_aotbuild(self, version: str, expected: str) -> None:
        environment = dataclasses.replace(ENVIRONMENT, aotbuild=version)
        found = wheel_requirements(plan(environment=environment))
        assert found[0] == f"aotbuild{expected}"
