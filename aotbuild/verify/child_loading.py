"""Loading an executable in the child process and comparing it with its record; imports jax."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.platforms.base import Host
from aotbuild.runtime.blobs import read_blob
from aotbuild.runtime.select import Verdict
from aotbuild.runtime.source import Source
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Record
from aotbuild.spec.target import HOST
from aotbuild.verify.outcome import Result, Status

_START = "entry_computation_layout={"
_SHAPE = re.compile(r"(?P<dtype>[a-z][a-z0-9]*)\[(?P<dims>[0-9,<=?]*)\](?:\{(?P<order>[0-9,]*))?")
# xla/primitive_util.cc; tried on jaxlib 0.10.2 and 0.12.0.1.
_HLO_PREFIXES = (
    ("bool", "pred"),
    ("bfloat", "bf"),
    ("uint", "u"),
    ("int", "s"),
    ("float8_", "f8"),
    ("float4_", "f4"),
    ("float", "f"),
    ("complex", "c"),
)


@dataclass(frozen=True)
class Shape:
    """A shape as HLO writes it, such as `f32[4,8]`, and whether its layout is row-major."""

    text: str
    row_major: bool = True


def stated_shapes(hlo: str) -> tuple[list[Shape], list[Shape]] | None:
    """Return the (inputs, outputs) of the entry computation, or None if there is none."""
    start = hlo.find(_START)
    if start < 0:
        return None
    body = _until_closed(hlo[start + len(_START) :])
    inputs, arrow, outputs = body.partition("->")
    return (_shapes(inputs), _shapes(outputs)) if arrow else None


def hlo_shape(dims: Sequence[int], dtype: str) -> str:
    """Return a shape as HLO writes it; `dtype` is a long name as of `numpy.dtype`."""
    for prefix, short in _HLO_PREFIXES:
        if dtype.startswith(prefix):
            dtype = short + dtype.removeprefix(prefix)
            break
    return f"{dtype}[{','.join(map(str, dims))}]"


def differences(
    what: str, expected: Sequence[str], found: Sequence[Shape], *, row_major: bool
) -> list[str]:
    """Return how stated shapes differ from those of a record; `what` is `input` or `output`."""
    if len(expected) != len(found):
        return [f"expected {len(expected)} {what}s, the executable has {len(found)}"]
    lines = []
    for number, (want, have) in enumerate(zip(expected, found, strict=True)):
        if want != have.text:
            lines.append(f"{what} {number}: the record says {want}, the executable {have.text}")
        elif row_major and not have.row_major:
            lines.append(f"{what} {number}: expected the row-major layout, found another")
    return lines


def _shapes(text: str) -> list[Shape]:
    found = []
    for match in _SHAPE.finditer(text):
        order = [int(axis) for axis in (match["order"] or "").split(",") if axis]
        text = f"{match['dtype']}[{match['dims']}]"
        found.append(Shape(text, order in ([], sorted(order, reverse=True))))
    return found


def _until_closed(text: str) -> str:
    depth = 1
    for position, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return text[:position]
    return text


@dataclass(frozen=True)
class Loaded:
    """The result of loading a record: the status and, if it passed, the callable and its place.

    `refused` means that the record is for another host, so it was not loaded.
    """

    status: Status
    reasons: list[str]
    run: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    shardings: Sequence[Any] = ()
    platform: str = HOST
    no_call: str | None = None
    refused: bool = False


def load_native(source: Source, verdict: Verdict) -> Loaded:
    """Load an executable with the runtime's checks, then compare its shapes with the record."""
    from aotbuild.runtime.backends.jax.backend import JaxTrees
    from aotbuild.runtime.backends.jax.executables import JaxExecutableLoader
    from aotbuild.runtime.backends.jax.placement import Placement, default_devices
    from aotbuild.runtime.devices import devices_for
    from aotbuild.runtime.loader import Loader
    from aotbuild.runtime.package import Stats

    record = verdict.record
    if record.calling.callbacks:
        names = ", ".join(
            sorted({each.call or "jax.debug.print" for each in record.calling.callbacks})
        )
        return Loaded(
            Status.NOT_CHECKED, [f"it calls back into Python ({names}), which is not run"]
        )
    devices = devices_for(record.requires, default_devices(record.target.platform))
    stats = Stats()
    loader = Loader(source, stats, JaxExecutableLoader(JaxTrees(), stats.count))
    loaded: Any = loader.load(verdict, Placement(devices, bool(record.calling.mesh)))
    executable = loaded.mesh_executable.xla_executable
    stated = stated_shapes(executable.hlo_modules()[0].to_string())
    if stated is None:
        reason = "it loads, but does not state the shapes of its inputs"
        return Loaded(Status.NOT_CHECKED, [reason])
    inputs, outputs = _expected_shapes(record, executable, devices)
    on_host = record.target.platform == HOST
    lines = differences("input", inputs, stated[0], row_major=on_host)
    lines += differences("output", outputs, stated[1], row_major=on_host)
    platform = record.target.platform
    return Loaded(*_concluded(lines), loaded.run, loaded.shardings, platform)


def _expected_shapes(
    record: Record, executable: Any, devices: tuple[Any, ...]
) -> tuple[list[str], list[str]]:
    """Return the shapes per device of the kept inputs and of the outputs."""
    from aotbuild.runtime.backends.jax.placement import (
        constant_shardings,
        leaf_shardings,
        output_shardings,
    )

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
    from aotbuild.runtime.backends.jax.private import physical_shape

    shape, dtype = physical_shape(aval)
    whole = len(aval.shape)
    return hlo_shape((*sharding.shard_shape(aval.shape), *shape[whole:]), str(dtype))


def load_portable(source: Source, record: Record, host: Host) -> Loaded:
    """Read an exported function and its StableHLO, and compare it with its record."""
    import jax
    from jax import export

    from aotbuild.runtime.backends.jax.placement import default_devices, leaf_shardings
    from aotbuild.runtime.devices import devices_for

    exported = export.deserialize(bytearray(read_blob(source, record.blob)))
    exported.mlir_module()
    concluded = _concluded(_portable_differences(record, exported))
    if host.platform not in record.requires.platforms:
        reason = f"it is for {', '.join(record.requires.platforms)}; this is {host.platform}"
        return Loaded(*concluded, no_call=reason)
    devices = devices_for(record.requires, default_devices(host.platform))
    if len(devices) < record.requires.devices:
        reason = f"it needs {record.requires.devices} devices, there are {len(devices)}"
        return Loaded(*concluded, no_call=reason)
    shardings = leaf_shardings(record, devices)
    options = {"in_shardings": shardings} if record.calling.mesh else {}
    jitted = jax.jit(exported.call, **options)
    return Loaded(*concluded, lambda leaves: list(jitted(*leaves)), shardings, host.platform)


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


def _concluded(reasons: list[str]) -> Result:
    return (Status.FAIL if reasons else Status.PASS), reasons
