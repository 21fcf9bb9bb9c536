"""What a worker does with a job: one trace, then every target that is made from it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jax import export

from aotbuild.build.jobs import Job
from aotbuild.build.worker.blobs import BlobFolder
from aotbuild.build.worker.custom_calls import CustomCalls
from aotbuild.build.worker.native import compile_native
from aotbuild.build.worker.portable import export_portable
from aotbuild.build.worker.resolve import user_traceback
from aotbuild.build.worker.trace import Traced, trace
from aotbuild.errors import AotbuildError, TraceRefused
from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_to_json
from aotbuild.spec.target import Target


class Session:
    """One worker's life: where blobs go, and what was registered before the user's code ran."""

    def __init__(self, blobs: Path, provenance: dict[str, Any], secret_paths: list[str]) -> None:
        self._blobs = BlobFolder(blobs)
        self._provenance = provenance
        self._secret_paths = [path.encode() for path in secret_paths]
        self._calls = CustomCalls()

    def run(self, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the messages of one job; a unit that fails does not stop the others."""
        job = Job.from_json(data)
        try:
            traced = _trace(job)
        except Exception as err:  # everything is reported, under the unit's name
            for target in job.targets:
                yield _failure(target, "trace", err)
            return
        for target in job.targets:
            yield {"start": str(target)}
            yield self._unit(traced, target)

    def _unit(self, traced: Traced, target: Target) -> dict[str, Any]:
        try:
            record = self._compile(traced, target)
            self._check_paths(record)
        except Exception as err:  # everything is reported, under the unit's name
            return _failure(target, "compile", err)
        function = traced.function.to_json()
        return {"target": str(target), "function": function, "record": record_to_json(record)}

    def _compile(self, traced: Traced, target: Target) -> Record:
        provenance = {**self._provenance, "label": traced.job.label}
        if target.is_portable:
            return export_portable(traced, target, self._blobs, provenance)
        return compile_native(traced, target, self._blobs, self._calls, provenance)

    def _check_paths(self, record: Record) -> None:
        data = (self._blobs.root / record.blob.path).read_bytes()
        for path in self._secret_paths:
            if path in data:
                msg = (
                    f"the compiled bytes contain {path.decode()}, a path of this machine; the "
                    "function probably keeps __file__ or a path in a name"
                )
                raise TraceRefused(msg)


def _trace(job: Job) -> Traced:
    if not job.sample:
        return trace(job)
    scope = export.SymbolicScope(job.export.constraints)
    return trace(job, lambda text: export.symbolic_shape(text, scope=scope)[0])


def _failure(target: Target, stage: str, error: Exception) -> dict[str, Any]:
    if isinstance(error, AotbuildError):
        text = str(error)
    else:
        text = f"{user_traceback(error)}\n{''.join(traceback.format_exception(error))}"
    return {"target": str(target), "stage": stage, "error": text}
