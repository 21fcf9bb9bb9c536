"""Loading an executable in the child process with jax."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from aotbuild.format.record import Record
from aotbuild.platforms.base import Host
from aotbuild.runtime.checked_blobs import Source
from aotbuild.runtime.compatibility import Verdict, portable_reasons
from aotbuild.runtime.concurrency import Stats
from aotbuild.runtime.devices import devices_for
from aotbuild.runtime.jax import private
from aotbuild.runtime.jax.backend import JaxExecutableLoader, probe
from aotbuild.runtime.jax.fallback import read_exported
from aotbuild.runtime.jax.placement import Placement, default_devices, leaf_shardings
from aotbuild.runtime.package import Loader
from aotbuild.verify.outcome import Callee, Loaded, Status


def host_for(record: Record) -> Host:
    """Return the host facts of a record's platform, or of the default platform."""
    if not record.target.is_portable:
        host = probe(record.target.platform)
        if host.device_count:
            return host
    return probe()


def load_native(source: Source, verdict: Verdict) -> Loaded:
    """Load an executable as a call does, with the runtime's checks."""
    record = verdict.record
    devices = devices_for(record.requires, default_devices(record.target.platform))
    stats = Stats()
    loader = Loader(source, stats, JaxExecutableLoader())
    loaded: Any = loader.load(record, Placement(devices, bool(record.calling.mesh)))
    callee = _callee(record, loaded.run, loaded.shardings)
    return Loaded(Status.PASS, (), callee, record.target.platform)


def load_portable(source: Source, record: Record, host: Host) -> Loaded:
    """Read an exported function and its StableHLO; it is compiled when it is called."""
    exported = read_exported(source, record)
    exported.mlir_module()
    readers = (_readers(record),)
    if reasons := portable_reasons(record, host):
        return Loaded(Status.PASS, readers, no_call="; ".join(reasons))
    devices = devices_for(record.requires, default_devices(host.platform))
    shardings = leaf_shardings(record, devices)
    options = {"in_shardings": shardings} if record.calling.mesh else {}
    jitted = jax.jit(exported.call, **options)
    callee = _callee(record, lambda leaves: list(jitted(*leaves)), shardings)
    return Loaded(Status.PASS, readers, callee, host.platform)


def _readers(record: Record) -> str:
    """Return which versions of jax read a portable form that this one has read.

    jax.export supports what it wrote for six months of releases, and gives that up from the oldest
    on: what lies between the writer and this version reads it, too.
    """
    writer = record.provenance.get("jax", "of an unknown version")
    known = jax.__version__ if writer == jax.__version__ else f"{writer} to {jax.__version__}"
    return (
        f"written by jax {writer}; read by jax {known}; older versions may refuse it, and so may "
        "those that are released more than six months after the writer"
    )


def _callee(
    record: Record, run: Callable[[Sequence[Any]], Sequence[Any]], shardings: Sequence[Any]
) -> Callee:
    def call(leaves: Iterable[Any]) -> list[Any]:
        rows = zip(leaves, record.signature.leaves, shardings, strict=True)
        return [as_numpy(output) for output in run([private.put(*row) for row in rows])]

    return Callee(call, private.physical_shape)


def as_numpy(output: Any) -> Any:
    """Return an array as numpy's, PRNG keys as their data."""
    if jax.numpy.issubdtype(output.dtype, jax.dtypes.prng_key):
        output = jax.random.key_data(output)
    return np.asarray(output)
