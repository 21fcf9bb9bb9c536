"""Presets of GPUs: the files that a target names, and what compilers get, in XLA's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import yaml
from pydantic import AfterValidator, Field

from aotbuild.errors import ManifestError, NoGpu, Problem
from aotbuild.format.words import quote
from aotbuild.platforms.building import Hardware, TargetItem
from aotbuild.platforms.cuda.driver import GpuPreset, open_driver
from aotbuild.platforms.cuda.tuning_results import read_tuning
from aotbuild.platforms.options import Model, refuse

_CAPABILITY = re.compile(r"([1-9][0-9]?)\.[0-9](a?)\Z", re.ASCII)
_ACCELERATED = 9  # XLA gives every real GPU of this major version and later the suffix "a".
_EXAMPLE = "a map such as those in configs/targets of aotbuild"
# Instead of a preset: the GPU of the machine that builds.
HERE = "host"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.+-]{0,63}\Z")
# Presets are in the installed package, or in the source tree around it.
_PACKAGE = Path(__file__).resolve().parents[2]
_FOLDER = Path("configs", "targets")

# Names in a CUDA `Hardware.description`. XLA's own text about an absent GPU, without the versions
# that the plugin knows; or, for the GPU of this machine, the devices that the process sees, as in
# CUDA_VISIBLE_DEVICES, and the file for what tuning measures.
TARGET_CONFIG, VISIBLE_DEVICES, TUNING_TO = "target_config", "visible_devices", "tuning_to"

# Reads a YAML file as a model; the text says what was expected. ManifestError has every problem.
ReadModel = Callable[[Path, type[Any], str], Any]


@cache
def preset_files() -> dict[str, Path]:
    """Return the files of all presets that aotbuild ships, sorted by name."""
    for place in (_PACKAGE, _PACKAGE.parent):
        files = sorted((place / _FOLDER).glob("*.yaml"))
        if files:
            return {file.stem: file for file in files}
    return {}


def is_file_name(gpu: str) -> bool:
    """Return whether a name is that of the user's own file rather than of a preset."""
    return "/" in gpu or gpu.endswith(".yaml")


def _capability(text: str) -> str:
    found = _CAPABILITY.match(text)
    if not found:
        refuse(f"expected a compute capability such as '9.0a' or '8.6', found {quote(text)}")
    major, suffix = int(found[1]), found[2]
    if (major >= _ACCELERATED) != (suffix == "a"):
        wanted = f"{text}a" if not suffix else text[:-1]
        refuse(
            f"GPUs of capability {_ACCELERATED}.0 and up have the suffix a, and no others; "
            f"write {wanted!r}, found {quote(text)}"
        )
    return text


def _one_line(text: str) -> str:
    if not text.isprintable() or not text.strip() or '"' in text or "\\" in text:
        refuse(f"expected the name of a GPU as its driver has it, found {quote(text)}")
    return text


_MOST = 2**53  # What every reader of the text takes.
Amount: TypeAlias = Annotated[int, Field(ge=1, le=_MOST)]
# These are 32 bits wide in XLA.
Small: TypeAlias = Annotated[int, Field(ge=1, le=2**31 - 1)]


class GpuModel(Model):
    """A preset: the fields of XLA's GpuDeviceInfoProto, by their names there.

    XLA divides by some of them, so the process dies if one is missing or 0; others silently change
    the code. Therefore all are required.
    """

    device_kind: Annotated[str, AfterValidator(_one_line)] = Field(
        description="The GPU's name, as its driver and jax have it"
    )
    capability: Annotated[str, AfterValidator(_capability)] = Field(
        description="Compute capability with its suffix, quoted"
    )
    core_count: Small = Field(description="Multiprocessors")
    fpus_per_core: Small = Field(description="FP32 units of a multiprocessor")
    clock_rate_ghz: float = Field(
        gt=0,
        le=100,
        allow_inf_nan=False,
        description="Highest clock rate of the multiprocessors, in GHz",
    )
    memory_bandwidth: Amount = Field(description="Bytes per second")
    device_memory_size: Amount = Field(description="Bytes of memory, as the driver has it")
    l2_cache_size: Amount = Field(description="Bytes of L2 cache")
    shared_memory_per_core: Small = Field(description="Bytes per multiprocessor")
    shared_memory_per_block: Small = Field(description="Bytes per block")
    shared_memory_per_block_optin: Small = Field(description="Bytes per block that asks for them")
    registers_per_core_limit: Small = Field(description="Registers per multiprocessor")
    registers_per_block_limit: Small = Field(description="Registers per block")
    threads_per_core_limit: Small = Field(description="Threads per multiprocessor")
    threads_per_block_limit: Small = Field(description="Threads per block")
    threads_per_warp: Small = Field(description="Threads per warp")
    block_dim_limit_x: Small = Field(description="Most blocks of a grid in x")
    block_dim_limit_y: Small = Field(description="Most blocks of a grid in y")
    block_dim_limit_z: Small = Field(description="Most blocks of a grid in z")


_WORDS = ("device_kind", "capability")
FACTS = tuple(name for name in GpuModel.model_fields if name not in _WORDS)


@cache
def shipped_preset(name: str) -> GpuPreset:
    """Return a preset that aotbuild ships, by its name in `preset_files`."""
    text = preset_files()[name].read_text(encoding="utf-8")
    return _preset(name, GpuModel.model_validate(yaml.safe_load(text)))


def named_by_kind(gpu: GpuPreset) -> GpuPreset:
    """Return a GPU with the name of the shipped preset of its kind, else with one of its own."""
    known = (name for name in preset_files() if shipped_preset(name).device_kind == gpu.device_kind)
    own = re.sub("[^a-z0-9]+", "-", gpu.device_kind.lower()).strip("-")
    return replace(gpu, name=next(known, own))


def read_preset(file: Path, read_model: ReadModel) -> GpuPreset:
    """Read the user's own preset, named by its file.

    Raises:
        ManifestError: with every problem of the file, which it names.
    """
    model = read_model(file, GpuModel, _EXAMPLE)
    if not _NAME.match(file.stem):
        message = f"{quote(file.stem)} cannot be a target's name; rename the file"
        raise ManifestError([Problem(str(file), 1, 1, "", message)])
    return _preset(file.stem, model)


def _preset(name: str, model: GpuModel) -> GpuPreset:
    facts = tuple((fact, getattr(model, fact)) for fact in FACTS)
    return GpuPreset(name, model.device_kind, model.capability, facts)


@dataclass(frozen=True)
class GpuFiles:
    """The presets of a request's GPUs, and the text of their tuning results.

    `here` is the preset of this machine's GPU, if it is one of them.
    """

    presets: tuple[GpuPreset, ...]
    tuning: str | None = None
    here: GpuPreset | None = None


def read_files(gpus: Sequence[str], tuning: str | None, item: TargetItem) -> GpuFiles:
    """Read presets and tuning results; report what is wrong with them."""
    found = [_read_gpu(name, number, item) for number, name in enumerate(gpus)]
    presets = tuple(preset for preset in found if preset)
    here = found[list(gpus).index(HERE)] if HERE in gpus else None
    kinds = {preset.device_kind for preset in presets}
    return GpuFiles(presets, None if tuning is None else read_tuning(tuning, kinds, item), here)


def _read_gpu(name: str, number: int, item: TargetItem) -> GpuPreset | None:
    """Return the preset of a GPU; None if it has problems, which are reported."""
    if name == HERE:
        return _preset_here(number, item)
    if not is_file_name(name):
        return shipped_preset(name)
    file = item.folder / name
    if not file.exists():
        message = f"no such file: {quote(name)}, looked for beside the manifest"
        item.report(message, "gpu", number)
        return None
    if file.stem in preset_files():
        message = f"{quote(name)} has the name of a preset, {file.stem}; rename the file"
        item.report(message, "gpu", number)
        return None
    try:
        return read_preset(file, item.read_model)
    except ManifestError as err:
        item.extend(err.problems)
        return None


def _preset_here(number: int, item: TargetItem) -> GpuPreset | None:
    """Return this machine's GPU, by the name of the shipped preset of its kind if there is one."""
    try:
        gpu = open_driver().describe(0, HERE)
    except NoGpu as err:
        message = f"no GPU can be used here: {err.reason}"
        item.report(f"{message}; build on the machine that has it, or name a preset", "gpu", number)
        return None
    return named_by_kind(gpu)


def preset_text(gpu: GpuPreset, source: str) -> str:
    """Return the YAML of a preset; `source` says in its first line where the facts are from."""
    facts = dict(gpu.facts)
    rows = [f"{name}: {facts[name]}  # {_meaning(name)}" for name in FACTS]
    head = [f"# {source}", f"device_kind: {gpu.device_kind}", f'capability: "{gpu.capability}"']
    return "\n".join([*head, *rows]) + "\n"


def _meaning(name: str) -> str:
    return str(GpuModel.model_fields[name].description)


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
