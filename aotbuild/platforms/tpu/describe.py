"""TPU targets: slices by their topology."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from aotbuild.format.target import Target
from aotbuild.format.words import one_of, quote
from aotbuild.platforms.building import (
    BuildMachine,
    Description,
    Hardware,
    Process,
    Request,
    TargetItem,
    Versions,
)
from aotbuild.platforms.options import Model, Processes, listed, refuse
from aotbuild.platforms.tpu.slices import TpuSlice, machine_counts, parse_slice, slice_pattern

# The distribution that compiles for TPUs and runs on them.
LIBTPU = "libtpu"
_HINTS = {
    "space=vmem": (
        "The kernel keeps more in the TPU's own memory (VMEM) than there is: give pallas_call "
        "a grid, and smaller blocks."
    ),
}


def _topology(name: str) -> str:
    """Check the name of a slice: its generation must be known and have such slices."""
    try:
        parse_slice(name)
    except ValueError as err:
        refuse(str(err))
    return name


Topology: TypeAlias = Annotated[
    str,
    AfterValidator(_topology),
    WithJsonSchema({"type": "string", "pattern": slice_pattern()}),
]
Topologies: TypeAlias = Annotated[
    list[Topology], BeforeValidator(listed, json_schema_input_type=Topology | list[Topology])
]


class TpuOptions(Model):
    """Native executables for TPU slices."""

    topology: Topologies = Field(description="Topologies, such as v5e:2x2")
    processes: Processes | None = Field(
        default=None, description="In how many processes a slice is; default: one for each machine"
    )


class Tpu(Description):
    """See `Description`."""

    options = TpuOptions
    summary = "TPU slices"
    example = '{topology: "v5e:2x2"}'
    plugins = (LIBTPU,)
    device_prefixes = ("TPU_",)
    option_prefixes = ("LIBTPU_",)
    hints = _HINTS
    process = Process(
        # libtpu numbers the programs of a process, and the number is in the bytes.
        one_job=True,
        job_per_hardware=True,
        # libtpu looks for no TPU, not even in a cloud; several processes compile at a time, which
        # its lock file prevents by default; nothing is logged, to stderr or below /tmp. Tried on
        # libtpu 0.0.42.1 and 0.0.50.1.
        variables=(
            ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
            ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
            ("TPU_LOAD_LIBRARY", "1"),
            ("TPU_LOG_DIR", "disabled"),
            ("TPU_MIN_LOG_LEVEL", "3"),
            ("TPU_SKIP_MDS_QUERY", "1"),
            ("TPU_STDERR_LOG_LEVEL", "3"),
            ("TPU_WORKER_HOSTNAMES", "localhost"),
            ("TPU_WORKER_ID", "0"),
        ),
        memory=600 << 20,
    )

    def read(self, options: Any, item: TargetItem) -> None:
        """Report slices that cannot be split into that many processes."""
        for name in options.topology if options.processes else ():
            counts = machine_counts(parse_slice(name))
            if options.processes not in counts:
                message = f"{quote(name)} can be in {one_of(counts)} processes"
                message += f", one for each machine, found {options.processes}"
                item.report(message, "processes")

    def parts(self, request: Request) -> Sequence[str]:
        options = request.options
        counts = f", processes {options.processes}" if options.processes not in (None, 1) else ""
        return [f"{topology}{counts}" for topology in options.topology]

    def device_counts(self, request: Request) -> Sequence[int]:
        return [parse_slice(name).devices for name in request.options.topology]

    def mesh_remedy(self, _: int) -> str:
        return "add a topology of so many, or change the mesh"

    def is_spread(self, request: Request) -> bool:
        return (request.options.processes or 1) > 1

    def packages(self, jax: str, _: Request | None = None) -> Sequence[str]:
        return [f"jax[tpu]=={jax}", LIBTPU]

    def problems(self, _: Request, versions: Versions, __: BuildMachine) -> Iterator[str]:
        if LIBTPU not in dict(versions.plugins):
            yield (
                f"tpu: {LIBTPU} is not installed beside jax {versions.jax}; name the toolchain "
                f"under toolchains:, or install it here: pip install 'jax[tpu]=={versions.jax}'"
            )

    def expand(
        self, request: Request, devices: int, _: BuildMachine
    ) -> Iterator[tuple[Target, Hardware]]:
        """Yield the targets of a request.

        A function on one device runs on any device of the slice; one on more spans all of it.
        """
        options = request.options
        for name in options.topology:
            found = parse_slice(name)
            processes = options.processes or found.processes
            hardware = _hardware(name, found, processes)
            if devices == 1:
                yield Target("tpu", name), hardware
            elif devices == found.devices:
                yield Target("tpu", name, devices, processes), hardware


def _hardware(name: str, found: TpuSlice, processes: int) -> Hardware:
    """Return the hardware of a slice, with its description for libtpu."""
    bounds = found.bounds(processes)
    assert bounds is not None, "the manifest was checked"
    description: list[tuple[str, Any]] = [
        ("topology_name", name),
        ("chips_per_host_bounds", bounds),
    ]
    if found.generation.config is not None:
        description.append(("chip_config_name", found.generation.config))
    kind, memory = found.generation.kind, found.generation.memory
    return Hardware(kind, memory, description=tuple(description))


PLATFORM = Tpu()
