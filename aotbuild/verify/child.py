"""The child process of `verify`: it loads executables and calls them with their golden inputs.

It takes jobs (a JSON list in `sys.argv[2]`) and writes JSON lines to its original stdout:

    {"job": number}                                     before each job
    {"stage": "load"}, {"stage": "golden"}              before native code runs
    {"check": "load", "status": …, "reasons": […]}      likewise "golden", which ends the job

The process may die at any moment; the last line tells the parent how far it got. What does not fit
this host is refused as a call refuses it, before native code runs. `load_with_jax` loads. Where jax
is not installed, `load_with_numpy` does what can be done without it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aotbuild.errors import AotbuildError, NoExecutable
from aotbuild.format.record import Record
from aotbuild.format.record_json import record_digest
from aotbuild.runtime.api import locate
from aotbuild.runtime.checked_blobs import Source, open_index
from aotbuild.runtime.compatibility import judge, other_jaxlib
from aotbuild.verify.outcome import NOT_LOADED, Loaded, Result, Status

_MAX_WRITTEN = 256 << 20
Send = Callable[[dict[str, Any]], None]


def main() -> None:
    """Do the jobs and exit without running destructors."""
    # Native code may print to stdout; only this copy of it carries results.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        results.write(json.dumps(message) + "\n")
        results.flush()

    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit_resources()
    for number, job in enumerate(json.loads(sys.argv[2])):
        send({"job": number})
        _examine(job, send)
    os._exit(0)


def _end_with_parent() -> None:
    """Wait until the parent has closed stdin; then kill this process and its children."""
    while os.read(0, 1):
        pass
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _backend() -> Any:
    """Return the module that loads executables here. Importing it imports jax, or jaxlib."""
    if find_spec("jax") is None:
        from aotbuild.verify import load_with_numpy

        return load_with_numpy
    from aotbuild.verify import load_with_jax

    return load_with_jax


def _examine(job: dict[str, Any], send: Send) -> None:
    """Send the results of both checks of a record."""
    try:
        source = locate(Path(job["place"]))
        record = _find(source, job)
    except Exception as err:  # noqa: BLE001 - whatever it is, it is the result
        _send_result(send, "load", _raised(err))
        _send_result(send, "golden", (Status.NOT_CHECKED, [NOT_LOADED]))
        return
    try:
        loaded = _load(source, record, send)
    except Exception as err:  # noqa: BLE001 - as above
        status, reasons = _raised(err)
        loaded = Loaded(status, tuple(reasons))
    _send_result(send, "load", (loaded.status, list(loaded.reasons)))
    try:
        result = _golden(source, record, loaded, send)
    except Exception as err:  # noqa: BLE001 - as above
        result = _raised(err)
    finally:
        source.close()
    _send_result(send, "golden", result)


def _golden(source: Source, record: Record, loaded: Loaded, send: Send) -> Result:
    if loaded.status is Status.NOT_CHECKED:
        return loaded.status, list(loaded.reasons)
    if loaded.status is not Status.PASS:
        return Status.NOT_CHECKED, [NOT_LOADED]
    from aotbuild.verify.golden_outputs import check_golden, why_not

    reason = why_not(record) or loaded.no_call
    if reason or loaded.callee is None:
        return Status.NOT_CHECKED, [reason or NOT_LOADED]
    send({"stage": "golden"})
    return check_golden(source, record, loaded.callee, loaded.platform)


def _load(source: Source, record: Record, send: Send) -> Loaded:
    if find_spec("jax") is None and find_spec("jaxlib"):  # before private names are imported
        from jaxlib.version import __version__ as jaxlib_version

        if other := other_jaxlib(record, jaxlib_version):
            return Loaded(Status.NOT_CHECKED, (other,))
    backend = _backend()
    host = backend.host_for(record)
    if record.target.is_portable:
        send({"stage": "load"})
        portable: Loaded = backend.load_portable(source, record, host)
        return portable
    verdict = judge(record, host)
    if not verdict.fits:
        return Loaded(Status.NOT_CHECKED, verdict.reasons)
    send({"stage": "load"})
    native: Loaded = backend.load_native(source, verdict)
    return native


def _find(source: Source, job: dict[str, Any]) -> Record:
    """Return the record of a job; AotbuildError if the package has changed."""
    for record in open_index(source).records(job["function"]):
        if record_digest(record) == job["record"]:
            return record
    msg = f"{source.path}: changed while it was being verified"
    raise AotbuildError(msg)


def _raised(error: Exception) -> Result:
    if isinstance(error, ImportError):
        return Status.NOT_CHECKED, [f"{error.name or error} is not installed here: {error}"]
    if isinstance(error, NoExecutable):
        return Status.NOT_CHECKED, [str(error)]
    known = isinstance(error, AotbuildError)
    return Status.FAIL, [str(error) if known else f"{type(error).__name__}: {error}"]


def _send_result(send: Send, check: str, result: Result) -> None:
    status, reasons = result
    send({"check": check, "status": status.value, "reasons": reasons})


def _limit_resources() -> None:
    """Forbid core dumps and limit file sizes, on systems that support it."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_WRITTEN, _MAX_WRITTEN))
