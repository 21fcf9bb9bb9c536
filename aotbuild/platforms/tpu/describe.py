"""TPU targets: slices by their topology, of known generations, sizes and machines.

Sources: device kinds and memory are from libtpu 0.0.42.1 and 0.0.50.1, sizes are what both accept
(docs/explanation/targets-facts.md); pods and machines are those of Google's pages on each
generation (cloud.google.com/tpu/docs/v6e and its neighbours).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
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

Sizes = tuple[int, int, int]

_GIB = 1 << 30
_NAME = re.compile(r"([a-z0-9]+):([1-9][0-9]{0,4}(?:x[1-9][0-9]{0,4}){0,2})\Z")
# Chips of one machine, in the order in which they are tried.
_MACHINES: tuple[Sizes, ...] = ((1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 1), (2, 4, 1), (4, 2, 1))
_WHOLE_MACHINES = (1, 4, 8)


@dataclass(frozen=True)
class Generation:
    """The facts of every slice of a generation.

    `axes` is how many sizes a slice has. `kind` is jax's `device_kind`, `memory` what programs may
    use of one device, in bytes: libtpu states it where a program is too large. `cores` is how many
    devices jax sees in a chip. `machine` is how many chips a machine has at most, `pod` a slice.
    `config` names libtpu's configuration of chips, where its default is not that of real machines.
    """

    name: str
    axes: int
    kind: str
    memory: int
    pod: int
    cores: int = 1
    machine: int = 4
    config: str | None = None


GENERATIONS = {
    generation.name: generation
    for generation in (
        # Real v4 machines join the two cores of a chip to one device; libtpu's default does not.
        Generation("v4", 3, "TPU v4", int(30.75 * _GIB), 4096, config="megacore"),
        Generation("v5e", 2, "TPU v5 lite", int(15.75 * _GIB), 256, machine=8),
        Generation("v5p", 3, "TPU v5", int(95.73 * _GIB), 8960),
        Generation("v6e", 2, "TPU v6 lite", int(31.24 * _GIB), 256, machine=8),
        Generation("tpu7x", 3, "TPU7x", int(94.74 * _GIB), 9216, cores=2),
    )
}


@dataclass(frozen=True)
class TpuSlice:
    """A slice: its generation, and its chips along x, y and z."""

    generation: Generation
    sizes: Sizes

    @property
    def text(self) -> str:
        """The sizes as Google writes them, such as `2x4`."""
        return "x".join(map(str, self.sizes[: self.generation.axes]))

    @property
    def chips(self) -> int:
        """The number of chips."""
        return prod(self.sizes)

    @property
    def devices(self) -> int:
        """The number of devices that jax sees."""
        return self.chips * self.generation.cores

    @property
    def processes(self) -> int:
        """The default number of processes: one for each machine.

        8 chips of v5e and v6e are one machine (ct5lp-hightpu-8t, ct6e-standard-8t) or two of 4; one
        is what the TPU API gives for v5litepod-8 and v6e-8. Larger slices are of machines with 4.
        """
        return 1 if self.chips <= self.generation.machine else self.chips // 4

    def bounds(self, processes: int) -> Sizes | None:
        """Return the chips of one machine along x, y and z; None if there are no such machines."""
        share, rest = divmod(self.chips, processes)
        if rest or share > self.generation.machine:
            return None
        fits = (m for m in _MACHINES if prod(m) == share and self._is_made_of(m))
        return next(fits, None)

    def _is_made_of(self, machine: Sizes) -> bool:
        return all(size % part == 0 for size, part in zip(self.sizes, machine, strict=True))


def parse_slice(name: str) -> TpuSlice:
    """Return the slice of a topology such as `v5e:2x2`; raises ValueError."""
    match = _NAME.match(name)
    generation = GENERATIONS.get(match[1]) if match else None
    if match is None or generation is None:
        expected = f"expected a topology such as 'v5e:2x2', of {one_of(GENERATIONS)}"
        msg = f"{expected}, found {quote(name)}"
        raise ValueError(msg)
    sizes = tuple(map(int, match[2].split("x")))
    if len(sizes) != generation.axes:
        msg = f"{generation.name} slices have {generation.axes} sizes, found {quote(name)}"
        raise ValueError(msg)
    x, y, z = (*sizes, 1)[:3]
    found = TpuSlice(generation, (x, y, z))
    problem = _impossible(found)
    if problem:
        raise ValueError(problem)
    return found


def machine_counts(found: TpuSlice) -> list[int]:
    """Return the possible numbers of processes of a slice, fewest first: whole machines only."""
    counts = (found.chips // chips for chips in (*_WHOLE_MACHINES, found.chips))
    return sorted({count for count in counts if count and found.bounds(count)})


def slice_pattern() -> str:
    """Return a regular expression for topologies, for the JSON schema."""
    forms = (f"{g.name}:{'x'.join(['[0-9]+'] * g.axes)}" for g in GENERATIONS.values())
    return f"^({'|'.join(forms)})$"


def _impossible(found: TpuSlice) -> str | None:
    """Return why there is no such slice; None if it exists."""
    generation, name = found.generation, quote(f"{found.generation.name}:{found.text}")
    if found.chips > generation.pod:
        return f"{name} has {found.chips} chips; {generation.name} has at most {generation.pod}"
    if found.bounds(found.processes) is None:
        return f"{name}: machines have 2x2 chips, or one; expected even sizes along x and y"
    return None


# --- the manifest and the plan ------------------------------------------------------------------

# The distribution that compiles for TPUs and runs on them.
LIBTPU = "libtpu"
_HINTS = {
    "space=vmem": (
        "The kernel keeps more in the TPU's own memory (VMEM) than there is: give pallas_call "
        "a grid, and smaller blocks."
    )
}


def _topology(name: str) -> str:
    """Check the name of a slice: its generation must be known and have such slices."""
    try:
        parse_slice(name)
    except ValueError as err:
        refuse(str(err))
    return name


Topology: TypeAlias = Annotated[
    str, AfterValidator(_topology), WithJsonSchema({"type": "string", "pattern": slice_pattern()})
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
