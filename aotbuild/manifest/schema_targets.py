"""The manifest's model of targets: what to compile for."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from aotbuild.manifest import names
from aotbuild.platforms.cuda.preset_files import preset_files
from aotbuild.platforms.options import Count, Model, listed, refuse
from aotbuild.platforms.tpu.slices import slice_pattern
from aotbuild.spec.words import did_you_mean, quote

Processes: TypeAlias = Annotated[int, Field(ge=1, le=65536)]
Isa: TypeAlias = Annotated[
    str,
    AfterValidator(names.isa_name),
    WithJsonSchema({"type": "string", "enum": list(names.ISA_NAMES)}),
]
Isas: TypeAlias = Annotated[
    list[Isa], BeforeValidator(listed, json_schema_input_type=Isa | list[Isa])
]
Gpu: TypeAlias = Annotated[
    str,
    AfterValidator(names.gpu_name),
    WithJsonSchema(
        {"anyOf": [{"enum": list(preset_files())}, {"type": "string", "pattern": "/|[.]yaml$"}]}
    ),
]
Gpus: TypeAlias = Annotated[
    list[Gpu],
    BeforeValidator(listed, json_schema_input_type=Gpu | list[Gpu]),
    Field(min_length=1),
]
Topology: TypeAlias = Annotated[
    str,
    AfterValidator(names.topology),
    WithJsonSchema({"type": "string", "pattern": slice_pattern()}),
]
Topologies: TypeAlias = Annotated[
    list[Topology], BeforeValidator(listed, json_schema_input_type=Topology | list[Topology])
]


def _target_map(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value in ("cpu", "portable"):
        return {value: {}}
    if value in ("cuda", "tpu"):
        example = {"cuda": "{gpu: h100-sxm}", "tpu": '{topology: "v5e:2x2"}'}[value]
        refuse(f"{value!r} needs to know which one; write {value}: {example}")
    hint = did_you_mean(value, TARGET_KINDS)
    return refuse(f"expected cpu, cuda, tpu or portable, found {quote(value)}{hint}")


class CpuOptions(Model):
    """Native executables for CPUs."""

    isa: Isas = Field(
        default=["host"], description="ISA levels; host is the level of the building machine"
    )
    devices: Count | None = Field(default=None, description="How many devices one call uses")


class CudaOptions(Model):
    """Native executables for NVIDIA GPUs."""

    gpu: Gpus = Field(
        description="GPU models, such as h100-sxm, or files of your own, such as ./my-gpu.yaml"
    )
    devices: Count | None = Field(default=None, description="How many devices one call uses")
    processes: Processes = Field(
        default=1, description="In how many processes the devices are, each with its share"
    )
    autotune: str | None = Field(
        default=None, description="File of results that aotbuild tune wrote, for these GPUs"
    )


class TpuOptions(Model):
    """Native executables for TPU slices."""

    topology: Topologies = Field(description="Topologies, such as v5e:2x2")
    processes: Processes | None = Field(
        default=None, description="In how many processes a slice is; default: one for each machine"
    )
    slices: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=1, description="How many slices work together, over the network between them"
    )


class PortableOptions(Model):
    """StableHLO that is compiled where it runs."""

    platforms: list[Literal["cpu", "cuda", "rocm", "tpu"]] = Field(
        default=["cpu", "cuda", "tpu"], description="Platforms it is lowered for"
    )


class TargetMap(Model):
    """One target, as a map of one key."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    cpu: CpuOptions | None = Field(default=None, description="CPUs at ISA levels")
    cuda: CudaOptions | None = Field(default=None, description="NVIDIA GPUs")
    tpu: TpuOptions | None = Field(default=None, description="TPU slices")
    portable: PortableOptions | None = Field(default=None, description="Portable StableHLO")

    @model_validator(mode="after")
    def _exactly_one(self) -> TargetMap:
        given = [kind for kind in TARGET_KINDS if getattr(self, kind) is not None]
        if len(given) != 1 or len(self.model_fields_set) != 1:
            refuse("expected a map of one key: cpu, cuda, tpu or portable")
        return self


TARGET_KINDS = tuple(TargetMap.model_fields)
TargetItem: TypeAlias = Annotated[
    TargetMap,
    BeforeValidator(_target_map, json_schema_input_type=Literal["cpu", "portable"] | TargetMap),
]
