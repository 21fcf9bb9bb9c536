"""Loading an executable in the child process where jax is not installed: with numpy's backend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from aotbuild.format.record import Record
from aotbuild.format.target import HOST
from aotbuild.platforms.base import Host
from aotbuild.runtime.checked_blobs import Source
from aotbuild.runtime.compatibility import Verdict
from aotbuild.runtime.concurrency import Stats
from aotbuild.runtime.devices import devices_for
from aotbuild.runtime.numpy import private
from aotbuild.runtime.numpy.backend import default_devices, default_platform, devices_on, probe, x64
from aotbuild.runtime.numpy.executables import NumpyExecutableLoader, NumpyPlacement, dtype_of
from aotbuild.runtime.numpy.trees import NumpyTrees
from aotbuild.runtime.package import Loader
from aotbuild.verify.outcome import Callee, Loaded, Status

_NO_PORTABLE = "jax is not installed here, which reads and compiles portable forms"


def host_for(record: Record) -> Host:
    """Return the host facts of a record's platform, or of the default platform."""
    platform = record.target.platform
    is_here = platform in (default_platform(), HOST)
    return probe(devices_on(platform) if is_here else default_devices())


def load_native(source: Source, verdict: Verdict) -> Loaded:
    """Load an executable as a call does, with the runtime's checks."""
    requires, platform = verdict.record.requires, verdict.record.target.platform
    loader = Loader(source, Stats(), NumpyExecutableLoader(NumpyTrees()))
    placement = NumpyPlacement(devices_for(requires, devices_on(platform)))
    loaded: Any = loader.load(verdict.record, placement)

    def run(leaves: Iterable[Any]) -> list[Any]:
        private.ensure_states(x64())
        return [np.asarray(output) for output in loaded.run(list(leaves))]

    callee = Callee(run, lambda aval: (aval.shape, dtype_of(aval)))
    return Loaded(Status.PASS, (), callee, platform)


def load_portable(*_: Any) -> Loaded:
    """Return that it cannot be checked."""
    return Loaded(Status.NOT_CHECKED, (_NO_PORTABLE,))
