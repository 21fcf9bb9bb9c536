"""From TPU targets to units, jobs and settings; nothing is compiled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.manifests import manifest

from aotbuild.build.jobs import Job, make_jobs
from aotbuild.build.plan import make_plan
from aotbuild.errors import PlanError
from aotbuild.platforms.building import Hardware, description
from aotbuild.toolchains.toolchain import Environment, probe

MESH = "call: m:f, args: [x: 'f32[4]', {y: 'f32[4]'}], mesh: {d: 8}"


def environment(*plugins: tuple[str, str]) -> Environment:
    found = probe()
    (toolchain,) = found.toolchains
    return replace(found, toolchains=(replace(toolchain, plugins=plugins),))


@pytest.fixture
def here() -> Environment:
    return environment(("libtpu", "0.0.42.1"))


def units(targets: str, here: Environment, entry: str = MESH) -> list[tuple[str, Hardware]]:
    plan = make_plan(manifest(f"targets: [{targets}]\n", entry), here)
    return [(str(unit.target), unit.hardware) for unit in plan.units]


def test_a_mesh_takes_slices_of_its_size(here: Environment) -> None:
    targets = "tpu: {topology: ['v5e:2x2', 'v5e:2x4', 'v5p:2x2x2', 'tpu7x:2x2x1']}"
    found = [target for target, _ in units(targets, here)]
    assert found == ["tpu:v5e:2x4:8", "tpu:v5p:2x2x2:8@2", "tpu:tpu7x:2x2x1:8"]


def test_without_mesh_one_device_of_each(here: Environment) -> None:
    entry = "call: m:f, args: [x: 'f32[4]']"
    found = units("tpu: {topology: ['v5e:1x1', 'v4:2x2x2']}", here, entry)
    assert [target for target, _ in found] == ["tpu:v5e:1x1:1", "tpu:v4:2x2x2:1"]
    one, four = (hardware for _, hardware in found)
    assert (one.kind, one.memory) == ("TPU v5 lite", 16911433728)
    assert dict(one.description) == {"topology_name": "v5e:1x1", "chips_per_host_bounds": (1, 1, 1)}
    assert dict(four.description)["chip_config_name"] == "megacore"
    assert Hardware.from_json(four.to_json()) == four


def test_libtpu_is_missing() -> None:
    jax = environment().toolchains[0].jax
    with pytest.raises(PlanError) as caught:
        units("tpu: {topology: 'v5e:2x4'}", environment())
    assert str(caught.value) == (
        f"aot.yaml: targets: tpu: libtpu is not installed beside jax {jax}; name the toolchain "
        f"under toolchains:, or install it here: pip install 'jax[tpu]=={jax}'"
    )
    assert description("tpu").packages(jax) == [f"jax[tpu]=={jax}", "libtpu"]


class TestJobs:
    def test_a_process_for_each_unit(self, here: Environment) -> None:
        """libtpu numbers what it compiles in a process, and the number is in the bytes."""
        text = "targets: [tpu: {topology: ['v5e:2x4', 'v6e:2x4']}]\n"
        jobs = make_jobs(make_plan(manifest(text, MESH), here).units)
        assert [len(job.targets) for _, job, _ in jobs] == [1, 1]
        assert all(settings.process.one_job for settings, _, _ in jobs)
        for _, job, _ in jobs:
            assert Job.model_validate_json(job.model_dump_json()) == job

    def test_the_worker_is_quiet_and_not_alone(self, here: Environment) -> None:
        text = "targets: [tpu: {topology: 'v5e:2x4'}]\n"
        ((settings, _, _),) = make_jobs(make_plan(manifest(text, MESH), here).units)
        given = settings.environment({"TPU_NAME": "x", "LIBTPU_INIT_ARGS": "--x", "HOME": "/h"})
        assert not given.keys() & {"TPU_NAME", "LIBTPU_INIT_ARGS"}
        assert given["TPU_LOAD_LIBRARY"] == given["ALLOW_MULTIPLE_LIBTPU_LOAD"] == "1"
        assert given["TPU_LOG_DIR"] == "disabled"
        assert given["JAX_PLATFORMS"] == "cpu"
