"""CPU targets: ISA levels, of this machine's architecture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, TypeAlias

from packaging.version import Version
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from aotbuild.format.target import HOST, Target
from aotbuild.format.words import did_you_mean, one_of, quote
from aotbuild.platforms.building import (
    BuildMachine,
    Description,
    Hardware,
    Process,
    Request,
    Versions,
)
from aotbuild.platforms.cpu.checks import LEVELS, level_of, missing_level_reason
from aotbuild.platforms.cpu.checks import PLATFORM as CHECKS
from aotbuild.platforms.options import Model, listed, refuse

# From here on jaxlib compiles for a CPU that is described to it; an older one only for the CPU it
# runs on, below a cap (docs/decisions/10-cpu-levels.md).
_FIRST_TO_CROSS_COMPILE = Version("0.11.2")
# XLA makes so many in the process that compiles: 8,192 take 1 GB and half a minute, twice as many
# take four times as long.
_MOST_DEVICES = 8192
_NAMES = ("host", *LEVELS)
# XLA:CPU splits large loops while it compiles, into at most as many parts as its client has
# threads: this number in every build. Loops that only move memory are also bounded by the square
# root of the CPUs that the process may use, so their code depends on the machine that builds (tried
# on jaxlib 0.10.2 and 0.12.0.1).
_THREADS_VARIABLE, _THREADS = "PJRT_NPROC", 16
# What people call a level by: an extension that it has, or a CPU.
_ALIASES = {
    "avx": "x86-64-v2+avx",
    "x86-64-v2": "x86-64-v2+avx",
    "avx2": "x86-64-v3",
    "fma": "x86-64-v3",
    "haswell": "x86-64-v3",
    "x86-64": "x86-64-v3",
    "x86_64": "x86-64-v3",
    "avx512": "x86-64-v4",
    "avx512f": "x86-64-v4",
    "skylake-avx512": "x86-64-v4",
    "vnni": "x86-64-v4+vnni",
    "avx512_vnni": "x86-64-v4+vnni",
    "bf16": "x86-64-v4+bf16",
    "avx512_bf16": "x86-64-v4+bf16",
    "amx": "x86-64-v4+amx",
    "sapphirerapids": "x86-64-v4+amx",
    "arm64": "aarch64",
    "neon": "aarch64",
}
HINTS = {
    "Only interpret mode is supported on CPU": (
        "Kernels of Pallas are not compiled for CPUs: leave out the target cpu, give those "
        "functions a manifest of their own, or call pallas_call with interpret=True there."
    )
}


def cross_compiles(jaxlib: str) -> bool:
    """Return whether that version of jaxlib compiles for exactly a level, on any machine."""
    return Version(jaxlib) >= _FIRST_TO_CROSS_COMPILE


def _isa_name(name: str) -> str:
    """Check an ISA level; ``native`` has a message of its own."""
    if name == "native":
        reason = "leaks the machine that builds into the wheel"
        refuse(f"'native' {reason}; write 'host', or a level: {one_of(LEVELS)}")
    if name not in _NAMES:
        hint = did_you_mean(name, _NAMES, _ALIASES)
        refuse(f"expected {one_of(_NAMES)}, found {quote(name)}{hint}")
    return name


Isa: TypeAlias = Annotated[
    str, AfterValidator(_isa_name), WithJsonSchema({"type": "string", "enum": list(_NAMES)})
]
Isas: TypeAlias = Annotated[
    list[Isa], BeforeValidator(listed, json_schema_input_type=Isa | list[Isa])
]


class CpuOptions(Model):
    """Native executables for CPUs."""

    isa: Isas = Field(
        default=["host"], description="ISA levels; host is the level of the building machine"
    )
    devices: Annotated[int, Field(ge=1, le=_MOST_DEVICES)] | None = Field(
        default=None, description="How many devices one call uses"
    )


class Cpu(Description):
    """See `Description`."""

    options = CpuOptions
    summary = "CPUs at ISA levels"
    aliases = ("host", "native", "x86", "x86_64", "x86-64", "aarch64", "arm64")
    hints = HINTS
    most_devices = _MOST_DEVICES
    process = Process(variables=((_THREADS_VARIABLE, str(_THREADS)),))

    def parts(self, request: Request) -> Sequence[str]:
        count = request.options.devices
        devices = f", devices {str(count)[:20]}" if count is not None else ""
        return [f"{isa}{devices}" for isa in request.options.isa]

    def problems(
        self, request: Request, versions: Versions, machine: BuildMachine
    ) -> Iterator[str]:
        if machine.isa is None:
            yield "cpu: this machine's CPU is below every level that jaxlib supports"
            return
        best = None if cross_compiles(versions.jaxlib) else machine.isa
        for level in request.options.isa:
            if level == "host":
                continue
            reason = missing_level_reason(level, machine.architecture, best)
            if reason:
                yield f"cpu: {reason}"
                continue
            known = level_of(level)
            lacking = CHECKS.missing_for_jaxlib(versions.jaxlib, known.architecture, known.features)
            if lacking:
                yield (
                    f"cpu: ISA level {level} lacks {', '.join(lacking)}, without which jaxlib "
                    f"{versions.jaxlib} refuses to be imported; name a higher level, or compile "
                    "with jax 0.11.2 or older"
                )

    def notes(self, request: Request, machine: BuildMachine) -> Iterator[str]:
        if "host" in request.options.isa:
            yield (
                f"targets: `host` is the level of this machine, {machine.isa}; machines below it "
                "refuse the executables. Name a level to build for others"
            )

    def expand(
        self, request: Request, devices: int, machine: BuildMachine
    ) -> Iterator[tuple[Target, Hardware]]:
        if request.options.devices in (None, devices):
            for level in request.options.isa:
                detail = (machine.isa or level) if level == "host" else level
                yield Target(HOST, detail, devices), Hardware()

    def cap(self, target: Target, versions: Versions) -> str | None:
        return None if cross_compiles(versions.jaxlib) else target.detail

    def cap_flags(self, cap: str) -> Sequence[str]:
        # A cap given as a compiler option is ignored by XLA:CPU.
        name = level_of(cap).xla_max_isa
        return [f"--xla_cpu_max_isa={name}"] if name else []


PLATFORM = Cpu()
