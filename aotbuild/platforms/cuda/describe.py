"""CUDA targets: GPUs by a preset in `configs/targets`, or by the user's own file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from aotbuild.format.target import Target
from aotbuild.format.words import did_you_mean, quote
from aotbuild.platforms.building import (
    BuildMachine,
    Description,
    Hardware,
    Process,
    Request,
    TargetItem,
    Versions,
)
from aotbuild.platforms.cuda.presets import (
    HERE,
    VISIBLE_DEVICES,
    GpuFiles,
    hardware_here,
    hardware_of,
    is_file_name,
    is_here,
    preset_files,
    read_files,
)
from aotbuild.platforms.cuda.tuning_results import TuningResults
from aotbuild.platforms.options import Devices, Model, Processes, listed, refuse

# The path of the compiler's tools. XLA writes it into the executable, so it is the same everywhere:
# relative to the worker's own folder. Executables of other platforms contain a path as well if
# NVIDIA's packages are installed; this is the path without them.
CUDA_ROOT = "./cuda_sdk_lib"

_PLUGINS = ("jax-cuda13-plugin", "jax-cuda13-pjrt")
_TOOLS = ("nvidia-cuda-nvcc", "nvidia-nvvm")
_REQUIRED = (*_PLUGINS, *_TOOLS)
# All that decide the bytes of an executable beside jax and jaxlib; cuDNN is only for functions that
# use it.
COMPILERS = (*_REQUIRED, "nvidia-cudnn-cu13")
# Pallas needs it for GPUs, and does not require it (jax 0.10.2).
_HELPERS = ("absl-py",)
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def _gpu_name(name: str) -> str:
    """Check the name of a preset or of the user's own file, which is read later."""
    known = (*preset_files(), HERE)
    if not is_file_name(name) and name not in known:
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        own = "or name a file of your own, such as ./my-gpu.yaml"
        refuse(f"unknown GPU {quote(name)}{hint}, {own}")
    return name


Gpu: TypeAlias = Annotated[
    str,
    AfterValidator(_gpu_name),
    WithJsonSchema(
        {"anyOf": [{"enum": [*preset_files(), HERE]}, {"type": "string", "pattern": "/|[.]yaml$"}]}
    ),
]
Gpus: TypeAlias = Annotated[
    list[Gpu], BeforeValidator(listed, json_schema_input_type=Gpu | list[Gpu]), Field(min_length=1)
]


class CudaOptions(Model):
    """Native executables for NVIDIA GPUs."""

    gpu: Gpus = Field(
        description="GPU models, such as h100-sxm, files of your own, such as ./my-gpu.yaml, or "
        "host: the GPU of the machine that builds"
    )
    devices: Devices | None = Field(default=None, description="How many devices one call uses")
    processes: Processes = Field(
        default=1, description="In how many processes the devices are, each with its share"
    )
    tuning: str | None = Field(
        default=None, description="File of tuning results, which aotbuild tune writes on the GPUs"
    )


# Texts in the compiler's errors, and their remedies.
_HINTS = {
    "cuDNN not found": (
        "This needs cuDNN also where it is compiled: add nvidia-cudnn-cu13 to the project's "
        "dependencies, or install it beside jax; or choose an implementation that XLA compiles "
        "itself."
    ),
    "Cannot lower pallas_call": (
        "jax's own rules for GPUs could not be imported: install absl-py into the build "
        "environment, and import jax.experimental.pallas at the top of the module."
    ),
    "Pass pipeline failed": (
        "A kernel of Pallas cannot be compiled for this GPU. The Mosaic GPU compiler, which some "
        "versions of jax take by default, needs capability 9.0 and up; for older GPUs give "
        "pallas_call compiler_params=jax.experimental.pallas.triton.CompilerParams()."
    ),
    "ptxas too old": (
        "The CUDA compiler does not know the capability of this GPU: correct its preset, or use a "
        "newer jax and nvidia-cuda-nvcc."
    ),
    "Failed to parse autotune results": (
        "The file under tuning: has results that XLA cannot read; run aotbuild tune again."
    ),
}


class Cuda(Description):
    """See `Description`."""

    options = CudaOptions
    summary = "NVIDIA GPUs"
    aliases = ("gpu", "gpus", "nvidia")
    example = "{gpu: h100-sxm}"
    plugins = COMPILERS
    worker_variables = (("CUDA_ROOT", CUDA_ROOT),)
    device_prefixes = ("CUDA_",)
    hints = _HINTS
    process = Process(
        own_folder=True,
        # XLA reads tuning results once in a process, and Pallas keeps to the first GPU that it
        # meets.
        job_per_hardware=True,
        per_hardware=True,
        memory=600 << 20,
    )

    def read(self, options: Any, item: TargetItem) -> GpuFiles:
        if options.devices is not None and options.devices % options.processes:
            count = str(options.devices)[:20]
            item.report(f"{options.processes} processes cannot share {count} devices", "processes")
        if HERE in options.gpu and options.processes > 1:
            item.report("gpu: host builds for GPUs of one process", "processes")
        return read_files(options.gpu, options.tuning, item)

    def parts(self, request: Request) -> Sequence[str]:
        options = request.options
        counts = f", devices {str(options.devices)[:20]}" if options.devices is not None else ""
        counts += f", processes {options.processes}" if options.processes != 1 else ""
        return [f"{preset.name}{counts}" for preset in request.files.presets]

    def is_spread(self, request: Request) -> bool:
        return bool(request.options.processes > 1)

    def packages(self, jax: str, request: Request | None = None) -> Sequence[str]:
        plugins = tuple(f"{name}=={jax}" for name in _PLUGINS)
        if request is not None and HERE in request.options.gpu:
            # Measuring takes the libraries of CUDA, which the extra brings.
            return [f"jax[cuda13]=={jax}", *plugins, *_HELPERS]
        return [*plugins, *_TOOLS, *_HELPERS]

    def problems(self, request: Request, versions: Versions, _: BuildMachine) -> Iterator[str]:
        installed = dict(versions.plugins)
        # The GPU's own machine may have the tools without NVIDIA's packages.
        required = _PLUGINS if HERE in request.options.gpu else _REQUIRED
        missing = [name for name in required if name not in installed]
        if missing:
            remedy = " ".join(
                f"'{requirement}'" for requirement in self.packages(versions.jax, request)
            )
            yield (
                f"cuda: {', '.join(missing)} is not installed beside jax {versions.jax}; name the "
                f"toolchain under toolchains:, or install it here: pip install {remedy}"
            )
        for name in _REQUIRED:
            version = installed.get(name, versions.jax)
            if name.startswith("jax-") and version != versions.jax:
                found = f"{name} is {version}, beside jax {versions.jax}"
                yield f"cuda: {found}; install {versions.jax}"

    def expand(
        self, request: Request, devices: int, _: BuildMachine
    ) -> Iterator[tuple[Target, Hardware]]:
        options, files = request.options, request.files
        if options.devices not in (None, devices) or devices % options.processes:
            return
        for preset in files.presets:
            target = Target("cuda", preset.name, devices, options.processes)
            if preset is files.here:
                yield target, hardware_here(preset, os.environ.get(_VISIBLE))
            else:
                yield target, hardware_of(preset, files.tuning)

    def variables(self, hardware: Hardware) -> Mapping[str, str]:
        if not is_here(hardware):
            return {}
        visible = dict(hardware.description)[VISIBLE_DEVICES]
        return {
            # The CPU stays the default: inputs and trees are made there.
            "JAX_PLATFORMS": "cpu,cuda",
            # Several workers share the GPU.
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **({_VISIBLE: visible} if visible is not None else {}),
        }

    def details(self, hardware: Hardware) -> Mapping[str, Any]:
        if is_here(hardware):
            return {"tuning": "measured on this machine's GPU"}
        if hardware.tuning is None:
            return {}
        return {"tuning": TuningResults.parse(hardware.tuning).summary()}

    def distribution_of(self, plugin: str) -> tuple[str, str | None]:
        # A record names the compiler, jax-cuda13-pjrt. jax finds it by the plugin, which requires
        # it in its own version, and brings what jax[cuda13] does.
        return plugin.replace("-pjrt", "-plugin"), "with-cuda"


PLATFORM = Cuda()
