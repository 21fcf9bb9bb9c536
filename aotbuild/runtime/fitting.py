"""The executables of a function that fit this host, and where each would run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotbuild.frozen import dataclass
from aotbuild.runtime.select import Verdict, select
from aotbuild.spec.record import Record

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Backend, Placement
    from aotbuild.runtime.devices import DeviceSet
    from aotbuild.runtime.package import Package


@dataclass(frozen=True)
class Selected:
    """An executable that fits, and where a call without committed arguments would run it."""

    verdict: Verdict
    placement: Placement

    @property
    def record(self) -> Record:
        """The record of the executable."""
        return self.verdict.record

    @property
    def runs(self) -> bool:
        """Whether one process can run it alone, and nobody is called back with zeros."""
        return self.record.requires.processes == 1 and not self.record.calling.callbacks


def fitting(package: Package, backend: Backend, devices: DeviceSet, name: str) -> list[Selected]:
    """Return the best executable of each signature of a function that fits these devices."""
    verdicts = select(package.index.records(name), package.probe(devices))
    best: dict[str, Verdict] = {}
    for verdict in verdicts:
        if verdict.fits:
            best.setdefault(verdict.record.signature.key(), verdict)
    return [Selected(found, backend.place_alone(found.record, devices)) for found in best.values()]
