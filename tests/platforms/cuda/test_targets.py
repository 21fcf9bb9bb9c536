"""From CUDA targets to units, jobs and settings; nothing is compiled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.manifests import manifest

from aotbuild.build.jobs import Job, make_jobs
from aotbuild.build.plan import BuildUnit, make_plan
from aotbuild.errors import PlanError
from aotbuild.platforms.building import description
from aotbuild.platforms.cuda.presets import hardware_of, shipped_preset, target_config_text
from aotbuild.toolchains.toolchain import Environment, probe

VERSIONS = {"cuda": "13.0.0", "cudnn": "9.12.0"}
MESH = "call: m:f, args: [x: 'f32[4]', {y: 'f32[4]'}], mesh: {d: 8}"
# As jax 0.10.2 and 0.12.0.1 took it; what only one of them knows would be refused by the other.
H200 = """\
gpu_device_info {
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 4800000000000
  device_memory_size: 150109945856
  l2_cache_size: 62914560
  shared_memory_per_core: 233472
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  threads_per_core_limit: 2048
  threads_per_block_limit: 1024
  threads_per_warp: 32
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  cuda_compute_capability { major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES }
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
  dnn_version: "9.12.0"
}
platform_name: "CUDA"
device_description_str: "NVIDIA H200"
"""


def environment(*without: str) -> Environment:
    """Return this one as if the plugin were installed, but for some of its distributions."""
    found = probe()
    (toolchain,) = found.toolchains
    names = [requirement.partition("==")[0] for requirement in description("cuda").packages("0")]
    plugins = ((name, toolchain.jax if name.startswith("jax-") else "13.5") for name in names)
    kept = tuple(pair for pair in plugins if pair[0] not in without)
    return replace(found, toolchains=(replace(toolchain, plugins=kept),))


def units(targets: str, entry: str = MESH) -> tuple[BuildUnit, ...]:
    return make_plan(manifest(f"targets: [{targets}]\n", entry), environment()).units


class TestHardware:
    def test_text_for_xla(self) -> None:
        ((name, text),) = hardware_of(shipped_preset("h200")).description
        assert name == "target_config"
        assert target_config_text(text, VERSIONS) == H200


class TestUnits:
    def test_devices_and_processes(self) -> None:
        found = units("cuda: {gpu: [h200, l4]}, cuda: {gpu: h200, devices: 8, processes: 2}")
        targets = [str(unit.target) for unit in found]
        assert targets == ["cuda:h200:8", "cuda:l4:8", "cuda:h200:8@2"]
        assert found[0].hardware.kind == "NVIDIA H200"

    def test_one_process_and_trace_for_each_gpu(self) -> None:
        jobs = make_jobs(units("cuda: {gpu: [h200, l4]}, cpu, cuda: {gpu: h200, processes: 2}"))
        found = [(s.platform, [str(target) for target in job.targets]) for s, job, _ in jobs]
        assert found == [
            ("cuda", ["cuda:h200:8", "cuda:h200:8@2"]),
            ("cuda", ["cuda:l4:8"]),
            ("cpu", [str(job.targets[0]) for _, job, _ in jobs[2:]]),
        ]
        assert len({settings for settings, _, _ in jobs}) == 3
        assert all(Job.model_validate_json(job.model_dump_json()) == job for _, job, _ in jobs)

    def test_environment_of_the_process(self) -> None:
        ((settings, _, _),) = make_jobs(units("cuda: {gpu: h200}"))
        inherited = {"CUDA_HOME": "/usr/local/cuda", "CUDA_ROOT": "/x", "PATH": "/bin"}
        found = settings.environment(inherited)
        assert settings.process.own_folder
        assert found["CUDA_ROOT"] == "./cuda_sdk_lib"
        assert found["JAX_PLATFORMS"] == "cpu"
        assert "CUDA_HOME" not in found


class TestPlan:
    def test_compiler_is_missing(self) -> None:
        request = manifest("targets: [cuda: {gpu: h200}]\n")
        with pytest.raises(PlanError) as caught:
            make_plan(request, environment("nvidia-nvvm", "jax-cuda13-pjrt"))
        version = probe().toolchains[0].jax
        assert str(caught.value) == (
            "aot.yaml: targets: cuda: jax-cuda13-pjrt, nvidia-nvvm is not installed beside jax "
            f"{version}; name the toolchain under toolchains:, or install it here: pip install "
            f"'jax-cuda13-plugin=={version}' 'jax-cuda13-pjrt=={version}' 'nvidia-cuda-nvcc' "
            "'nvidia-nvvm' 'absl-py'"
        )

    def test_plugin_of_another_jax(self) -> None:
        other = environment()
        (toolchain,) = other.toolchains
        plugins = (("jax-cuda13-plugin", "0.1"), *toolchain.plugins[1:])
        other = replace(other, toolchains=(replace(toolchain, plugins=plugins),))
        with pytest.raises(PlanError, match=r"cuda: jax-cuda13-plugin is 0.1, beside jax"):
            make_plan(manifest("targets: [cuda: {gpu: h200}]\n"), other)
