"""Presets of GPUs: YAML files of facts, read and written."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from aotbuild.manifest import names, translate
from aotbuild.manifest.nodes import START, MapNode, Node, plain
from aotbuild.manifest.problems import Problems, describe
from aotbuild.manifest.reader import MAX_BYTES, read_yaml
from aotbuild.manifest.types import GpuPreset
from aotbuild.platforms.cuda.preset_files import preset_files
from aotbuild.platforms.options import refuse
from aotbuild.spec.words import quote

_CAPABILITY = re.compile(r"([1-9][0-9]?)\.[0-9](a?)\Z", re.ASCII)
_ACCELERATED = 9  # XLA gives every real GPU of this major version and later the suffix "a".
_EXAMPLE = "a map such as those in configs/targets of aotbuild"


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


def _float(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


_MOST = 2**53  # What every reader of the text takes.
Amount: TypeAlias = Annotated[int, Field(ge=1, le=_MOST)]
# These are 32 bits wide in XLA.
Small: TypeAlias = Annotated[int, Field(ge=1, le=2**31 - 1)]


class GpuModel(BaseModel):
    """A preset: the fields of XLA's GpuDeviceInfoProto, by their names there.

    XLA divides by some of them, and the process dies where one is missing or 0; others silently
    change the code. So all have to be there.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    device_kind: Annotated[str, AfterValidator(_one_line)] = Field(
        description="The GPU's name, as its driver and jax have it"
    )
    capability: Annotated[str, AfterValidator(_capability)] = Field(
        description="Compute capability with its suffix, quoted"
    )
    core_count: Small = Field(description="Multiprocessors")
    fpus_per_core: Small = Field(description="FP32 units of a multiprocessor")
    clock_rate_ghz: Annotated[
        float,
        BeforeValidator(_float, json_schema_input_type=float),
        Field(gt=0, le=100, allow_inf_nan=False),
    ] = Field(description="Highest clock rate of the multiprocessors, in GHz")
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
    """Return a preset that aotbuild brings, by its name in `preset_files`."""
    return read_preset(preset_files()[name])


def read_preset(file: Path) -> GpuPreset:
    """Read a preset; its name is that of the file.

    Raises:
        ManifestError: with every problem of the file, which it names.
    """
    problems = Problems(str(file))
    root = _root(file, problems)
    preset = _preset(file.stem, root, problems) if root is not None else None
    problems.raise_any()
    assert preset is not None, "a preset without problems is read"
    return preset


def _root(file: Path, problems: Problems) -> Node | None:
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1).decode("utf-8")
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or "it is no UTF-8 text"
        problems.add(START, "", f"cannot be read: {reason}; expected a YAML file, {_EXAMPLE}")
        return None
    root = read_yaml(text, problems) if text.strip() else None
    if not isinstance(root, MapNode):
        found = describe(root) if root is not None else "nothing"
        problems.add(START, "", f"expected {_EXAMPLE}, found {found}")
        return None
    return root


def _preset(name: str, root: Node, problems: Problems) -> GpuPreset | None:
    try:
        model = GpuModel.model_validate(plain(root))
    except ValidationError as err:
        for error in err.errors(include_url=False, include_input=False):
            translate.report(error, root, problems, GpuModel)
        return None
    if not names.is_gpu_name(name):
        problems.add(START, "", f"{quote(name)} cannot be a target's name; rename the file")
    facts = tuple((fact, getattr(model, fact)) for fact in FACTS)
    return GpuPreset(name, model.device_kind, model.capability, facts)


def preset_text(gpu: GpuPreset, source: str) -> str:
    """Return the YAML of a preset; `source` says in its first line where the facts are from."""
    facts = dict(gpu.facts)
    rows = [f"{name}: {facts[name]}  # {_meaning(name)}" for name in FACTS]
    head = [
        f"# {source}",
        f"device_kind: {gpu.device_kind}",
        f'capability: "{gpu.capability}"',
    ]
    return "\n".join([*head, *rows]) + "\n"


def _meaning(name: str) -> str:
    return str(GpuModel.model_fields[name].description)
