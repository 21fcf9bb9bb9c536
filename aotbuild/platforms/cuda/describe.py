"""CUDA targets: GPUs by the presets of `configs/targets`, or by a file of the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aotbuild.manifest import CudaTarget, GpuPreset
from aotbuild.platforms.base import Hardware
from aotbuild.spec.target import Target
from aotbuild.toolchains.environment import Environment, Toolchain

# Names in a CUDA `Hardware.description`: what XLA is told of the GPU, without the versions that the
# plugin knows; or, where this machine's own GPU is compiled for, the file for what tuning finds.
TARGET_CONFIG, TUNING_TO = "target_config", "tuning_to"

# The distributions without which nothing is compiled; cuDNN is for functions that ask for it.
_COMPILERS = ("jax-cuda13-plugin", "jax-cuda13-pjrt", "nvidia-cuda-nvcc", "nvidia-nvvm")
# Pallas needs it for GPUs, and does not require it (jax 0.10.2).
_HELPERS = ("absl-py",)


def packages(jax: str) -> list[str]:
    """Return what compiles for this platform beside that jax, as requirements."""
    plugins = (f"{name}=={jax}" if name.startswith("jax-") else name for name in _COMPILERS)
    return [*plugins, *_HELPERS]


def problems(_: CudaTarget, toolchain: Toolchain, __: Environment) -> Iterator[str]:
    """Yield why this machine cannot build a target."""
    installed = dict(toolchain.plugins)
    missing = [name for name in _COMPILERS if name not in installed]
    if missing:
        remedy = " ".join(f"'{requirement}'" for requirement in packages(toolchain.jax))
        yield (
            f"cuda: {', '.join(missing)} is not installed beside jax {toolchain.jax}; name the "
            f"toolchain under toolchains:, or install it here: pip install {remedy}"
        )
    for name in _COMPILERS:
        version = installed.get(name, toolchain.jax)
        if name.startswith("jax-") and version != toolchain.jax:
            yield f"cuda: {name} is {version}, beside jax {toolchain.jax}; install {toolchain.jax}"


def expand(request: CudaTarget, devices: int, _: Environment) -> Iterator[tuple[Target, Hardware]]:
    """Yield the targets of a request for a function that spans so many devices."""
    if request.devices not in (None, devices) or devices % request.processes:
        return
    for gpu in request.gpus:
        target = Target("cuda", gpu.name, devices, request.processes)
        yield target, hardware_of(gpu, request.autotune)


def hardware_of(gpu: GpuPreset, autotune: str | None = None) -> Hardware:
    """Return what is known of a GPU, for whoever compiles for it."""
    memory = dict(gpu.facts)["device_memory_size"]
    description = ((TARGET_CONFIG, _description(gpu)),)
    return Hardware(gpu.device_kind, int(memory), gpu.capability, description, autotune)


def tuning_to(hardware: Hardware) -> str | None:
    """Return the file for what tuning on this machine's own GPU finds; None for absent GPUs."""
    return dict(hardware.description).get(TUNING_TO)


def target_config_text(description: str, versions: Mapping[str, str]) -> str:
    """Return the text of a GpuTargetConfigProto, with the versions that it will meet at least.

    The fields are those that jax 0.10.2 and 0.12 have in common.
    """
    cuda, cudnn = versions["cuda"], versions["cudnn"]
    return description.replace(
        _END_OF_DEVICE,
        f'  driver_version: "{cuda}"\n  runtime_version: "{cuda}"\n  dnn_version: "{cudnn}"\n'
        f"{_END_OF_DEVICE}",
    )


_END_OF_DEVICE = "}\nplatform_name"


def _description(gpu: GpuPreset) -> str:
    major, _, minor = gpu.capability.rstrip("a").partition(".")
    extension = " feature_extension: ACCELERATED_FEATURES" if gpu.capability.endswith("a") else ""
    facts = "".join(f"  {name}: {value}\n" for name, value in gpu.facts)
    return (
        "gpu_device_info {\n"
        f"{facts}"
        f"  cuda_compute_capability {{ major: {major} minor: {minor}{extension} }}\n"
        f'{_END_OF_DEVICE}: "CUDA"\n'
        f'device_description_str: "{gpu.device_kind}"\n'
    )
