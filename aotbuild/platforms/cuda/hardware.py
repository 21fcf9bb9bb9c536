"""The description of a GPU that compilers get, in XLA's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aotbuild.platforms.building import Hardware
from aotbuild.platforms.cuda.presets import GpuPreset

# Names in a CUDA `Hardware.description`. XLA's own text about an absent GPU, without the versions
# that the plugin knows; or, for the GPU of this machine, the devices that the process sees, as in
# CUDA_VISIBLE_DEVICES, and the file for what tuning measures.
TARGET_CONFIG, VISIBLE_DEVICES, TUNING_TO = "target_config", "visible_devices", "tuning_to"


def hardware_of(gpu: GpuPreset, tuning: str | None = None) -> Hardware:
    """Return the hardware of a GPU preset, for which nothing is measured."""
    return _hardware(gpu, ((TARGET_CONFIG, _description(gpu)),), tuning)


def hardware_here(gpu: GpuPreset, visible_devices: str | None) -> Hardware:
    """Return the hardware of this machine's GPU, on which XLA measures while it compiles."""
    return _hardware(gpu, ((VISIBLE_DEVICES, visible_devices),))


def is_here(hardware: Hardware) -> bool:
    """Return whether the hardware is this machine's GPU."""
    return VISIBLE_DEVICES in dict(hardware.description)


def tuning_to(hardware: Hardware) -> str | None:
    """Return the file for what tuning measures on this machine's GPU; None without tuning."""
    return dict(hardware.description).get(TUNING_TO)


def _hardware(
    gpu: GpuPreset, description: tuple[tuple[str, Any], ...], tuning: str | None = None
) -> Hardware:
    memory = dict(gpu.facts)["device_memory_size"]
    return Hardware(gpu.device_kind, int(memory), gpu.capability, description, tuning)


def target_config_text(description: str, versions: Mapping[str, str]) -> str:
    """Return the text of a GpuTargetConfigProto with the minimal versions.

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
