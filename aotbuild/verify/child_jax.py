"""Loading an executable in the child process with jax, and comparing it with its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax import export

from aotbuild.format.aval import Aval
from aotbuild.format.record import Record
from aotbuild.platforms.base import Host, known_names
from aotbuild.runtime.blobs import read_blob
from aotbuild.runtime.devices import devices_for
from aotbuild.runtime.jax import private
from aotbuild.runtime.jax.backend import JaxTrees, probe
from aotbuild.runtime.jax.executables import JaxExecutableLoader
from aotbuild.runtime.jax.placement import (
    Placement,
    constant_shardings,
    default_devices,
    leaf_shardings,
    output_shardings,
)
from aotbuild.runtime.loader import Loader
from aotbuild.runtime.package import Stats
from aotbuild.runtime.select import Verdict
from aotbuild.runtime.source import Source
from aotbuild.verify.child_loading import (
    NOTHING_STATED,
    Callee,
    Loaded,
    concluded,
    hlo_shape,
    shapes_agree,
    with_result,
)
from aotbuild.verify.child_results import result_problem
from aotbuild.verify.outcome import Status


def platforms() -> list[str]:
    """Return the platforms with devices on this host, the default one first."""
    default = probe()
    others = [probe(name) for name in known_names() if name != default.platform]
    return [host.platform for host in (default, *others) if host.device_count]


def host_for(record: Record) -> Host:
    """Return the host facts of a record's platform, or of the default platform."""
    if not record.target.is_portable:
        host = probe(record.target.platform)
        if host.device_count:
            return host
    return probe()


def load_native(source: Source, verdict: Verdict) -> Loaded:
    """Load an executable with the runtime's checks, then compare its shapes with the record."""
    record = verdict.record
    if record.calling.callbacks:
        names = ", ".join(
            sorted({each.call or "jax.debug.print" for each in record.calling.callbacks})
        )
        return Loaded(
            Status.NOT_CHECKED, [f"it calls back into Python ({names}), which is not run"]
        )
    loaded, devices = load(source, verdict)
    executable = loaded.mesh_executable.xla_executable
    result = shapes_agree(record, executable, _expected_shapes(record, executable, devices))
    if result is None:
        return NOTHING_STATED
    if result[0] is Status.PASS:
        trees = JaxTrees()
        made = result_problem(source, record, trees, lambda: _zeros(record, devices))
        result = with_result(result, made)
    callee = _callee(record, loaded.run, loaded.shardings)
    return Loaded(*result, callee, record.target.platform)


def _zeros(record: Record, devices: tuple[Any, ...]) -> list[Any]:
    """Return zeros as the executable would return them."""
    avals, shardings = record.calling.outputs, output_shardings(record.calling, devices)
    rows = zip(avals, shardings, strict=True)
    return [private.put(private.zeros(aval), aval, sharding) for aval, sharding in rows]


def load_callee(source: Source, verdict: Verdict) -> Callee:
    """Load an executable as a call does, with the runtime's checks and no others."""
    loaded, _ = load(source, verdict)
    return _callee(verdict.record, loaded.run, loaded.shardings)


def load(source: Source, verdict: Verdict) -> tuple[Any, tuple[Any, ...]]:
    """Return the loaded executable of a verdict, and the devices it is loaded onto."""
    record = verdict.record
    devices = devices_for(record.requires, default_devices(record.target.platform))
    stats = Stats()
    loader = Loader(source, stats, JaxExecutableLoader(JaxTrees(), stats.count))
    return loader.load(verdict, Placement(devices, bool(record.calling.mesh))), devices


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


def _expected_shapes(
    record: Record, executable: Any, devices: tuple[Any, ...]
) -> tuple[list[str], list[str]]:
    """Return the shapes per device of the kept inputs and of the outputs."""
    calling = record.calling
    avals = [*(constant.aval for constant in calling.constants), *record.signature.leaves]
    shardings = [
        *constant_shardings(calling, executable, devices),
        *leaf_shardings(record, devices),
    ]
    inputs = [_shape_on_device(avals[index], shardings[index]) for index in sorted(calling.kept)]
    pairs = zip(calling.outputs, output_shardings(calling, devices), strict=True)
    return inputs, [_shape_on_device(*pair) for pair in pairs]


def _shape_on_device(aval: Aval, sharding: Any) -> str:
    shape, dtype = private.physical_shape(aval)
    whole = len(aval.shape)
    return hlo_shape((*sharding.shard_shape(aval.shape), *shape[whole:]), str(dtype))


def load_portable(source: Source, record: Record, host: Host) -> Loaded:
    """Read an exported function and its StableHLO, and compare it with its record."""
    exported = export.deserialize(bytearray(read_blob(source, record.blob)))
    exported.mlir_module()
    result = concluded(_portable_differences(record, exported))
    if host.platform not in record.requires.platforms:
        reason = f"it is for {', '.join(record.requires.platforms)}; this is {host.platform}"
        return Loaded(*result, no_call=reason)
    devices = devices_for(record.requires, default_devices(host.platform))
    if len(devices) < record.requires.devices:
        reason = f"it needs {record.requires.devices} devices, there are {len(devices)}"
        return Loaded(*result, no_call=reason)
    shardings = leaf_shardings(record, devices)
    options = {"in_shardings": shardings} if record.calling.mesh else {}
    jitted = jax.jit(exported.call, **options)
    callee = _callee(record, lambda leaves: list(jitted(*leaves)), shardings)
    return Loaded(*result, callee, host.platform)


def _portable_differences(record: Record, exported: Any) -> list[str]:
    symbolic = record.provenance.get("symbolic_leaves")
    calling, inputs = record.calling, [_without_weak(aval) for aval in record.signature.leaves]
    found = [str(aval) if symbolic else _plain(aval) for aval in exported.in_avals]
    pairs: list[tuple[str, Any, Any]] = [
        ("inputs", symbolic or inputs, found),
        ("platforms", list(record.requires.platforms), sorted(exported.platforms)),
        ("devices", record.requires.devices, exported.nr_devices),
    ]
    if calling.outputs or not symbolic:
        outputs = [_without_weak(aval) for aval in calling.outputs]
        pairs.append(("outputs", outputs, [_plain(aval) for aval in exported.out_avals]))
    return [
        f"{what}: the record says {_list(want)}, the artifact {_list(have)}"
        for what, want, have in pairs
        if want != have
    ]


def _plain(aval: Any) -> str:
    return str(aval.str_short(short_dtypes=True))


def _without_weak(aval: Aval) -> str:
    return str(aval).removeprefix("~")


def _list(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
