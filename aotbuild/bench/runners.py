"""How each form of an executable is loaded and called: leaves in, leaves out, all on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import export

from aotbuild.errors import AotbuildError
from aotbuild.platforms.base import Host
from aotbuild.runtime.backends.jax import private
from aotbuild.runtime.backends.jax.placement import default_devices, leaf_shardings
from aotbuild.runtime.blobs import read_blob
from aotbuild.runtime.devices import devices_for
from aotbuild.runtime.select import Verdict
from aotbuild.runtime.source import Source
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Record
from aotbuild.verify import child_jax


@dataclass(frozen=True)
class Runner:
    """What can be called: `place` puts numpy leaves on the device, `run` waits for the results."""

    place: Callable[[Iterable[Any]], list[Any]]
    run: Callable[[Sequence[Any]], Any]
    physical: Callable[[Aval], tuple[tuple[int, ...], Any]] = private.physical_shape


def native_runner(source: Source, verdict: Verdict) -> Runner:
    """Load an executable as a call does."""
    loaded, _ = child_jax.load(source, verdict)
    return _runner(verdict.record, loaded.shardings, loaded.run)


def portable_runner(source: Source, record: Record, wanted: Record, host: Host) -> Runner:
    """Read a portable form and compile it for the signature that is wanted.

    AotbuildError if it is for other platforms.
    """
    if host.platform not in record.requires.platforms:
        msg = f"it is for {', '.join(record.requires.platforms)}; this is {host.platform}"
        raise AotbuildError(msg)
    exported = export.deserialize(bytearray(read_blob(source, record.blob)))
    return compiled_runner(wanted, exported.call, record.calling.donated)


def compiled_runner(
    record: Record, function: Callable[..., Any], donated: Sequence[int] = ()
) -> Runner:
    """Trace and compile a function of leaves for the signature and the devices of a record."""
    devices = devices_for(record.requires, default_devices(record.target.platform))
    shardings = leaf_shardings(record, devices)
    options: dict[str, Any] = {"in_shardings": tuple(shardings)} if record.calling.mesh else {}
    jitted = jax.jit(function, donate_argnums=tuple(donated), **options)
    avals = [private.shaped_array(aval) for aval in record.signature.leaves]
    compiled = jitted.lower(*avals).compile()
    return _runner(record, shardings, lambda leaves: compiled(*leaves))


def _runner(
    record: Record, shardings: Sequence[Any], run: Callable[[Sequence[Any]], Any]
) -> Runner:
    def place(leaves: Iterable[Any]) -> list[Any]:
        rows = zip(leaves, record.signature.leaves, shardings, strict=True)
        placed: list[Any] = jax.block_until_ready([private.put(*row) for row in rows])
        return placed

    return Runner(place, lambda leaves: jax.block_until_ready(run(leaves)))
