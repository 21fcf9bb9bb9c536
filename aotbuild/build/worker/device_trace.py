"""Trace as if on the device that is compiled for, where a kernel of Pallas asks which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from aotbuild.build.jobs import Job
from aotbuild.build.worker.avals import Dims
from aotbuild.build.worker.platforms.registry import platform
from aotbuild.build.worker.trace import Traced, trace
from aotbuild.errors import TraceRefused


def trace_job(job: Job, symbolic: Dims | None) -> Traced:
    """Trace a job as `trace` does, on the CPU devices of this process; on its own if it asks."""
    try:
        return trace(job, symbolic)
    except TraceRefused as err:
        if not asks_for_device(job, err):
            raise
    # The units of a job for GPUs or TPUs are all for the same one.
    target, hardware = job.targets[0], job.hardware[0]
    return trace_on(job, platform(target.platform).devices(target, hardware))


def asks_for_device(job: Job, error: TraceRefused) -> bool:
    """Return whether a job for a GPU or TPU failed for want of it."""
    target = job.targets[0]
    return not target.is_portable and platform(target.platform).asks_for_device(error)


def trace_on(job: Job, devices: Sequence[Any]) -> Traced:
    """Trace a job over these GPUs or TPUs, as `trace` does."""
    if job.mesh:
        return trace(job, devices=devices)
    mesh = Mesh(np.array([devices[0]]), ("_device",), axis_types=(AxisType.Auto,))
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        return trace(job)
