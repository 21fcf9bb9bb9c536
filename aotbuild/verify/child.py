"""What runs in a child process of `verify`: load one executable, and compare it with its record.

Takes one job (JSON in `sys.argv[2]`), writes JSON lines to the stdout that it was started with. May
die at any moment: the parent tells from the last line how far it came. The only file of
`aotbuild.verify` that imports jax; it runs nothing that it loads.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime.host import Host, probe
from aotbuild.runtime.locate import locate
from aotbuild.runtime.select import Verdict, judge
from aotbuild.runtime.source import Source, open_index, read_blob
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Record
from aotbuild.verify.contents import record_digest
from aotbuild.verify.outcome import Status
from aotbuild.verify.shapes import differences, hlo_shape, stated_shapes

_MAX_WRITTEN = 256 << 20
Result = tuple[Status, list[str]]


def main() -> None:
    """Do the job and leave without tearing anything down."""
    # Native code prints to stdout as it likes; only the copy carries results.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _limit_resources()

    def send(message: dict[str, Any]) -> None:
        results.write(json.dumps(message) + "\n")
        results.flush()

    try:
        status, reasons = _examine(json.loads(sys.argv[2]), send)
    except ImportError as err:
        status, reasons = Status.NOT_CHECKED, [f"{err.name or err} is not installed here: {err}"]
    except Exception as err:  # noqa: BLE001 - whatever it is, it is the result
        status, reasons = Status.FAIL, [_text(err)]
    send({"status": status.value, "reasons": reasons})
    os._exit(0)


def _examine(job: dict[str, Any], send: Any) -> Result:
    source = locate(Path(job["place"]))
    record = _find(source, job)
    host = _host(record)
    if record.target.is_portable:
        send({"stage": "load"})
        return _concluded(_portable_differences(source, record))
    verdict = judge(record, host)
    if not verdict.fits:
        return Status.NOT_CHECKED, list(verdict.reasons)
    send({"stage": "load"})
    return _load(source, verdict)


def _find(source: Source, job: dict[str, Any]) -> Record:
    for record in open_index(source).records(job["function"]):
        if record_digest(record) == job["record"]:
            return record
    msg = f"{source.place}: changed while it was being verified"
    raise AotbuildError(msg)


def _host(record: Record) -> Host:
    """Return the facts of the platform of a record, or of the default one if there is no such."""
    if not record.target.is_portable:
        host = probe(record.target.platform)
        if host.device_count:
            return host
    return probe()


def _load(source: Source, verdict: Verdict) -> Result:
    """Load an executable with the runtime's own checks, then compare the shapes that it states."""
    from aotbuild.runtime.executable import Loader
    from aotbuild.runtime.placement import Placement, local_devices
    from aotbuild.runtime.stats import Stats

    record = verdict.record
    devices = tuple(local_devices(record.target.platform)[: record.requires.devices])
    loader = Loader(source, Stats())
    loaded = loader.load(verdict, Placement(devices, bool(record.calling.mesh)))
    executable = loaded.mesh_executable.xla_executable
    stated = stated_shapes(executable.hlo_modules()[0].to_string())
    if stated is None:
        return Status.NOT_CHECKED, ["it loads, but does not state the shapes of its inputs"]
    inputs, outputs = _expected_shapes(record, executable, devices)
    is_cpu = record.target.platform == "cpu"
    lines = differences("input", inputs, stated[0], row_major=is_cpu)
    return _concluded(lines + differences("output", outputs, stated[1], row_major=is_cpu))


def _expected_shapes(
    record: Record, executable: Any, devices: tuple[Any, ...]
) -> tuple[list[str], list[str]]:
    """Return the shapes that one device sees: of the kept inputs, and of the outputs."""
    from aotbuild.runtime.placement import constant_shardings, leaf_shardings, output_shardings

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
    from aotbuild.runtime.jax_private import physical_shape

    shape, dtype = physical_shape(aval)
    whole = len(aval.shape)
    return hlo_shape((*sharding.shard_shape(aval.shape), *shape[whole:]), str(dtype))


def _portable_differences(source: Source, record: Record) -> list[str]:
    """Return how an exported function differs from its record; reads its StableHLO too."""
    from jax import export

    exported = export.deserialize(bytearray(read_blob(source, record.blob)))
    exported.mlir_module()
    symbolic = record.provenance.get("symbolic_leaves")
    calling, found = record.calling, [_plain(aval) for aval in exported.in_avals]
    pairs: list[tuple[str, Any, Any]] = [
        ("inputs", symbolic or [_without_weak(aval) for aval in record.signature.leaves], found),
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


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, AotbuildError) else f"{type(error).__name__}: {error}"


def _limit_resources() -> None:
    """No core dumps, and no file that fills the disk; only where the system can."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_WRITTEN, _MAX_WRITTEN))
