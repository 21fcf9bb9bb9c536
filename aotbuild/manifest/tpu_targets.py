"""TPU targets: whether their slices can be in so many processes."""

from __future__ import annotations

from aotbuild.manifest.nodes import Node, walk
from aotbuild.manifest.problems import Problems, dotted
from aotbuild.manifest.schema_targets import TpuOptions
from aotbuild.manifest.types import TpuTarget
from aotbuild.platforms.tpu.slices import machine_counts, parse_slice
from aotbuild.spec.words import one_of, quote


def read_tpu(options: TpuOptions, index: int, root: Node, problems: Problems) -> TpuTarget:
    """Return the target at an index; report slices that cannot be in so many processes."""
    steps: tuple[str | int, ...] = ("targets", index, "tpu", "processes")
    for name in options.topology if options.processes else ():
        counts = machine_counts(parse_slice(name))
        if options.processes not in counts:
            message = f"{quote(name)} can be in {one_of(counts)} processes"
            message += f", one for each machine, found {options.processes}"
            problems.add(walk(root, steps).mark, dotted(steps), message)
    return TpuTarget(tuple(options.topology), options.processes, options.slices)


def device_counts(target: TpuTarget) -> list[int]:
    """Return how many devices each of a target's topologies has."""
    return [parse_slice(name).devices * target.slices for name in target.topologies]
