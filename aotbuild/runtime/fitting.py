"""The executables of a function that fit this host, where each would run, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aotbuild.format.left_out import WORDS
from aotbuild.format.record import Record
from aotbuild.runtime.package import left_out
from aotbuild.runtime.select import Verdict, select

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Backend, Placement
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


@dataclass(frozen=True)
class Missing:
    """A signature that is not ready.

    Attributes:
        function: The name of the function.
        signature: The signature as the manifest writes it, as `score(batch=8)`.
        status: `refused` (no executable of it fits this host), `left out` (it failed when the wheel
            was built), `failed` (it could not be loaded or run), `loading` (a preload is at it) or
            `not loaded`.
        reasons: Why.
    """

    function: str
    signature: str
    status: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.signature}: {self.status}: {'; '.join(self.reasons)}"


@dataclass(frozen=True)
class Fitting:
    """What of some functions fits a host, and which signatures nothing serves there."""

    selected: tuple[Selected, ...]
    missing: tuple[Missing, ...]


def fitting(
    package: Package, backend: Backend, devices: DeviceSet, names: Iterable[str]
) -> Fitting:
    """Return the best executable of each signature of some functions that fits these devices."""
    host = package.probe(devices)
    selected, missing = list[Selected](), list[Missing]()
    for name in names:
        groups: dict[str, list[Verdict]] = {}
        for verdict in select(package.index.records(name), host):
            groups.setdefault(verdict.record.signature.key(), []).append(verdict)
        for verdicts in _expected(list(groups.values())):
            best = verdicts[0]
            if best.fits:
                selected.append(Selected(best, backend.place_alone(best.record, devices)))
            else:
                reasons = tuple(f"{v.record.target}: {'; '.join(v.reasons)}" for v in verdicts)
                missing.append(Missing(name, label_of(best.record), "refused", reasons))
        labels = {label_of(group[0].record) for group in groups.values()}
        missing += _left_out(package, name, labels)
    return Fitting(tuple(selected), tuple(missing))


def label_of(record: Record) -> str:
    """Return the signature of a record as the manifest writes it, as `score(batch=8)`."""
    return str(record).removesuffix(f" {record.target}")


def _expected(groups: list[list[Verdict]]) -> list[list[Verdict]]:
    """Leave out signatures that only a portable form has, if the function has executables.

    Such a form may be for any size, and then its signature is that of an example.
    """
    native = [group for group in groups if not all(v.record.target.is_portable for v in group)]
    return native or groups


def _left_out(package: Package, name: str, labels: set[str]) -> Iterator[Missing]:
    """Yield the signatures that failed at build, and of which no other target has an executable."""
    failed: dict[str, list[str]] = {}
    for unit in left_out(package.index).units:
        if unit.function == name and unit.signature not in labels:
            failed.setdefault(unit.signature, []).append(f"{unit.target} {WORDS}: {unit.summary}")
    for signature, reasons in failed.items():
        yield Missing(name, signature, "left out", tuple(reasons))
