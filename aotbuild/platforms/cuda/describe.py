"""CUDA targets: GPUs by a preset in `configs/targets`, or by the user's own file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from packaging.version import Version
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from aotbuild.errors import ManifestError
from aotbuild.platforms.building import (
    BuildMachine,
    Description,
    Hardware,
    Place,
    Process,
    Request,
    Versions,
)
from aotbuild.platforms.cuda.hardware import hardware_of
from aotbuild.platforms.cuda.presets import (
    GpuPreset,
    is_file_name,
    preset_files,
    read_preset,
    shipped_preset,
)
from aotbuild.platforms.cuda.tuning_results import TuningResults, read_text
from aotbuild.platforms.options import Devices, Model, Processes, listed, refuse
from aotbuild.spec.record import Record
from aotbuild.spec.target import Target
from aotbuild.spec.words import did_you_mean, quote

# The path of the compiler's tools. XLA writes it into the executable, so it is the same everywhere:
# relative to the worker's own folder. Executables of other platforms contain a path as well if
# NVIDIA's packages are installed; this is the path without them.
CUDA_ROOT = "./cuda_sdk_lib"

_REQUIRED = ("jax-cuda13-plugin", "jax-cuda13-pjrt", "nvidia-cuda-nvcc", "nvidia-nvvm")
# All that decide the bytes of an executable beside jax and jaxlib; cuDNN is only for functions that
# use it.
COMPILERS = (*_REQUIRED, "nvidia-cudnn-cu13")
# Pallas needs it for GPUs, and does not require it (jax 0.10.2).
_HELPERS = ("absl-py",)
_REMEDY = "aotbuild tune writes one on a machine with the GPU"


def _gpu_name(name: str) -> str:
    """Check the name of a preset or of the user's own file, which is read later."""
    if not is_file_name(name) and name not in preset_files():
        hint = did_you_mean(name, preset_files()) or f"; known: {', '.join(preset_files())}"
        own = "or name a file of your own, such as ./my-gpu.yaml"
        refuse(f"unknown GPU {quote(name)}{hint}, {own}")
    return name


Gpu: TypeAlias = Annotated[
    str,
    AfterValidator(_gpu_name),
    WithJsonSchema(
        {"anyOf": [{"enum": list(preset_files())}, {"type": "string", "pattern": "/|[.]yaml$"}]}
    ),
]
Gpus: TypeAlias = Annotated[
    list[Gpu],
    BeforeValidator(listed, json_schema_input_type=Gpu | list[Gpu]),
    Field(min_length=1),
]


class CudaOptions(Model):
    """Native executables for NVIDIA GPUs."""

    gpu: Gpus = Field(
        description="GPU models, such as h100-sxm, or files of your own, such as ./my-gpu.yaml"
    )
    devices: Devices | None = Field(default=None, description="How many devices one call uses")
    processes: Processes = Field(
        default=1, description="In how many processes the devices are, each with its share"
    )
    autotune: str | None = Field(
        default=None, description="File of results that aotbuild tune wrote, for these GPUs"
    )


@dataclass(frozen=True)
class GpuFiles:
    """The presets of a request's GPUs, and the text of the results that `aotbuild tune` wrote."""

    presets: tuple[GpuPreset, ...]
    autotune: str | None = None


# Texts in the compiler's errors, and their remedies.
_HINTS = {
    "cuDNN not found": (
        "This needs cuDNN also where it is compiled: add it to the toolchain, as in toolchains: "
        "[{jax: 0.10.2, packages: [nvidia-cudnn-cu13]}], or install it beside jax; or choose an "
        "implementation that XLA compiles itself."
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
    "Version mismatch in autotune results": (
        "The file under autotune: was written by another jax; run aotbuild tune with this one."
    ),
    "Failed to parse autotune results": (
        "The file under autotune: is not what XLA writes; run aotbuild tune again."
    ),
    "No cached config found for HLO": (
        "The results under autotune: do not have all of it: they are of another jax, of another "
        "function, or of a GPU whose facts differ from the preset's. Run aotbuild tune again on "
        "the GPU, with the preset that aotbuild doctor --describe-gpu writes there."
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
    preallocated = 0.75
    variant_namespace = "nvidia"
    process = Process(
        own_folder=True,
        # XLA reads tuning results once in a process, and Pallas keeps to the first GPU that it
        # meets.
        job_per_hardware=True,
        per_hardware=True,
        memory=600 << 20,
    )

    def read(self, options: Any, place: Place) -> GpuFiles:
        """Read presets and tuning results; report what is wrong with them."""
        found = [_preset(name, number, place) for number, name in enumerate(options.gpu)]
        presets = tuple(preset for preset in found if preset)
        if options.devices is not None and options.devices % options.processes:
            count = str(options.devices)[:20]
            place.report(f"{options.processes} processes cannot share {count} devices", "processes")
        text = None if options.autotune is None else _tuning(options.autotune, presets, place)
        return GpuFiles(presets, text)

    def parts(self, request: Request) -> Sequence[str]:
        options = request.options
        counts = f", devices {str(options.devices)[:20]}" if options.devices is not None else ""
        counts += f", processes {options.processes}" if options.processes != 1 else ""
        return [f"{preset.name}{counts}" for preset in request.files.presets]

    def is_spread(self, request: Request) -> bool:
        return bool(request.options.processes > 1)

    def packages(self, jax: str) -> Sequence[str]:
        plugins = (f"{name}=={jax}" if name.startswith("jax-") else name for name in _REQUIRED)
        return [*plugins, *_HELPERS]

    def problems(self, _: Request, versions: Versions, __: BuildMachine) -> Iterator[str]:
        installed = dict(versions.plugins)
        missing = [name for name in _REQUIRED if name not in installed]
        if missing:
            remedy = " ".join(f"'{requirement}'" for requirement in self.packages(versions.jax))
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
            yield target, hardware_of(preset, files.autotune)

    def distribution_of(self, plugin: str) -> tuple[str, str | None]:
        # A record names the compiler, jax-cuda13-pjrt. jax finds it by the plugin, which requires
        # it in its own version, and brings what jax[cuda13] does.
        return plugin.replace("-pjrt", "-plugin"), "with-cuda"

    def variant_features(self, records: Sequence[Record]) -> dict[str, list[str]]:
        capabilities = {record.requires.capability or "" for record in records}
        # `9.0a` is a way to compile for 9.0: the provider knows architectures without a suffix.
        numbers = {text.rstrip("af").replace(".", "") for text in capabilities}
        features = {"sm_arch": [f"{number}_real" for number in sorted(numbers)]}
        lowest = [record.requires.cuda for record in records]
        if all(lowest):
            version = min(Version(text) for text in lowest if text)
            features["cuda_version_lower_bound"] = [f"{version.major}.{version.minor}"]
        return features


def _preset(name: str, number: int, place: Place) -> GpuPreset | None:
    """Return the preset of a GPU; None if its file has problems, which are reported."""
    if not is_file_name(name):
        return shipped_preset(name)
    try:
        file = place.file(name)
    except OSError:
        message = f"no such file: {quote(name)}, looked for beside the manifest"
        place.report(message, "gpu", number)
        return None
    except ValueError as err:
        place.report(str(err), "gpu", number)
        return None
    if file.stem in preset_files():
        message = f"{quote(name)} has the name of a preset, {file.stem}; rename the file"
        place.report(message, "gpu", number)
        return None
    try:
        return read_preset(file, place.read_model)
    except ManifestError as err:
        place.extend(err.problems)
        return None


def _tuning(name: str, presets: Sequence[GpuPreset], place: Place) -> str | None:
    """Return the text of a file of tuning results; None if it has a problem, which is reported."""
    try:
        file = place.file(name)
    except ValueError as err:
        place.report(str(err), "autotune")
        return None
    except OSError as err:
        place.report(_unreadable(name, err), "autotune")
        return None
    try:
        text = read_text(file)
        results = TuningResults.parse(text)
    except OSError as err:
        place.report(_unreadable(name, err), "autotune")
        return None
    except ValueError as err:
        message = f"{quote(name)} is no file of tuning results: {err}; {_REMEDY}"
        place.report(message, "autotune")
        return None
    kind, kinds = results.device_kind, [preset.device_kind for preset in presets]
    if kind is not None and kinds and kind not in kinds:
        message = f"{quote(name)} has results of {kind}, but this target is {', '.join(kinds)}"
        place.report(f"{message}; tune on that GPU", "autotune")
    return text


PLATFORM = Cuda()


def _unreadable(name: str, err: OSError) -> str:
    reason = f"cannot be read, looked for beside the manifest: {err.strerror}"
    return f"{quote(name)} {reason}; {_REMEDY}"
