"""What a trace gives: a flat jaxpr, its leaves, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from jax.sharding import Mesh

from aotbuild.build.jobs import Fed, Job
from aotbuild.format.record import Template
from aotbuild.format.signature import Function, Signature
from aotbuild.format.tree import Tree
from aotbuild.worker.jaxprs import program_of
from aotbuild.worker.jitted import Jitted, jit_job
from aotbuild.worker.shardings import Spec, in_specs, out_specs


@dataclass(frozen=True)
class Traced:
    """A function at one signature: its flat jaxpr, its inputs and outputs.

    `leaves` are the flat inputs as `ShapeDtypeStruct`. `paths` are their key paths, each beginning
    with the argument's name; `outputs` and `out_paths` likewise, with None for what `nnx.jit`
    writes into an argument. Where dims are symbolic, the signature is that of the job's row.
    `notes` are for the user. `fed` is what the next call gets, if that has other avals. `again` has
    the input of that call for each output that is one.
    """

    job: Job
    function: Function
    signature: Signature
    closed_jaxpr: Any
    leaves: tuple[Any, ...]
    paths: tuple[tuple[Any, ...], ...]
    outputs: tuple[Any, ...]
    out_paths: tuple[tuple[Any, ...] | None, ...]
    out_tree: Tree
    mesh: Mesh | None
    context: Mesh | None
    notes: tuple[str, ...] = ()
    fed: Fed | None = None
    templates: tuple[Template, ...] = ()
    again: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def program(self) -> dict[str, str]:
        """What tells it from another trace: `provenance.trace`."""
        return program_of(self.closed_jaxpr)

    @property
    def donated(self) -> tuple[int, ...]:
        """Indices of the leaves of donated arguments."""
        names = set(self.job.function.donate)
        return tuple(i for i, path in enumerate(self.paths) if path[0] in names)

    @property
    def in_specs(self) -> tuple[Spec, ...]:
        """The PartitionSpec of every leaf over the mesh; empty without one."""
        return () if self.mesh is None else in_specs(self.job, self.paths, self.leaves)

    @property
    def out_specs(self) -> tuple[Spec | None, ...]:
        """The PartitionSpec of every output; None where XLA chooses, and () without a mesh.

        What the next call takes is where that call wants it, if the manifest does not say more.
        """
        if self.mesh is None:
            return ()
        options, ins = self.job.function, self.in_specs
        specs: list[Spec | None] = [None] * len(self.outputs)
        if not options.explicit_axes:
            for output, leaf in self.again.items():
                specs[output] = ins[leaf]
        if options.out_shardings_given:
            results = [(i, path) for i, path in enumerate(self.out_paths) if path is not None]
            outputs = [self.outputs[i] for i, _ in results]
            given = out_specs(self.job, [path for _, path in results], outputs)
            for (i, _), spec in zip(results, given, strict=True):
                specs[i] = spec
        return tuple(specs)


def jit_like(traced: Traced, job: Job) -> Jitted:
    """Return a job's function at other sizes than the traced one, over the same mesh."""
    devices = list(traced.mesh.devices.flat) if traced.mesh else None
    return replace(jit_job(job, devices=devices), context=traced.context)
