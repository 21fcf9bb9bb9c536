"""Loading an executable in the child process where jax is not installed: with numpy's backend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from aotbuild.format.aval import Aval
from aotbuild.format.record import Record
from aotbuild.format.target import HOST
from aotbuild.platforms.base import Host
from aotbuild.runtime.devices import devices_for
from aotbuild.runtime.loader import Loader
from aotbuild.runtime.numpy import private
from aotbuild.runtime.numpy.backend import (
    default_devices,
    default_platform,
    devices_on,
    platform_names,
    probe,
    x64,
)
from aotbuild.runtime.numpy.executables import (
    NumpyExecutable,
    NumpyExecutableLoader,
    NumpyPlacement,
    dtype_of,
)
from aotbuild.runtime.numpy.trees import NumpyTrees
from aotbuild.runtime.package import Stats
from aotbuild.runtime.select import Verdict
from aotbuild.runtime.source import Source
from aotbuild.verify.child_loading import NOTHING_STATED, Callee, Loaded, hlo_shape, shapes_agree
from aotbuild.verify.outcome import Status

_NO_PORTABLE = "jax is not installed here, which reads and compiles portable forms"


def platforms() -> list[str]:
    """Return the platforms with devices on this host, the default one first."""
    return list(dict.fromkeys((default_platform(), HOST)))


def host_for(record: Record) -> Host:
    """Return the host facts of a record's platform, or of the default platform."""
    platform = record.target.platform
    known = platform in platform_names() and platform in platforms()
    return probe(devices_on(platform) if known else default_devices())


def load_native(source: Source, verdict: Verdict) -> Loaded:
    """Load an executable with the runtime's checks, then compare its shapes with the record."""
    record, loaded = verdict.record, _load(source, verdict)
    result = shapes_agree(record, loaded.xla_executable, _expected_shapes(record))
    if result is None:
        return NOTHING_STATED
    return Loaded(*result, _callee(loaded), record.target.platform)


def load_callee(source: Source, verdict: Verdict) -> Callee:
    """Load an executable as a call does, with the runtime's checks and no others."""
    return _callee(_load(source, verdict))


def _load(source: Source, verdict: Verdict) -> Any:
    requires, platform = verdict.record.requires, verdict.record.target.platform
    loader = Loader(source, Stats(), NumpyExecutableLoader(NumpyTrees()))
    return loader.load(verdict, NumpyPlacement(devices_for(requires, devices_on(platform))))


def load_portable(*_: Any) -> Loaded:
    """Return that it cannot be checked."""
    return Loaded(Status.NOT_CHECKED, [_NO_PORTABLE])


def _callee(executable: NumpyExecutable) -> Callee:
    def run(leaves: Iterable[Any]) -> list[Any]:
        private.ensure_states(x64())
        return [np.asarray(output) for output in executable.run(list(leaves))]

    return Callee(run, lambda aval: (aval.shape, dtype_of(aval)))


def _expected_shapes(record: Record) -> tuple[list[str], list[str]]:
    """Return the shapes of the kept inputs and of the outputs, on the one device."""
    calling = record.calling
    avals = [*(constant.aval for constant in calling.constants), *record.signature.leaves]
    return [_shape(avals[index]) for index in sorted(calling.kept)], [*map(_shape, calling.outputs)]


def _shape(aval: Aval) -> str:
    return hlo_shape(aval.shape, str(dtype_of(aval)))
