"""The choice of an executable for a flattened call: find, select and place, or say why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotbuild.errors import InvalidArgument, NoExecutable, SignatureMismatch
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.runtime.binding import REMEDY, Call
from aotbuild.runtime.devices import DeviceSet
from aotbuild.runtime.package import Package, left_out
from aotbuild.runtime.select import Verdict, refusal_trace, select
from aotbuild.runtime.trees import differences, leaf_steps

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.backend import Placement
    from aotbuild.runtime.padding import PadPlan

_MOST_MISMATCHES = 1024
# Characters of one that is kept: a static value may be long.
_LONGEST_KEPT = 1 << 14
_REFUSED_REMEDY = (
    "Change what a reason names, install a wheel that was built for this host, or set "
    "AOTBUILD_FALLBACK=portable or =jit."
)
_FAILED_REMEDY = "Mend what failed and build again, or set AOTBUILD_FALLBACK=jit."


class Choice:
    """Chooses among the executables of one function.

    `devices` are those that the caller chose with `Library.on`, if any.
    """

    def __init__(self, package: Package, function: Function, devices: DeviceSet | None) -> None:
        self.package = package
        self.function = function
        self._chosen = devices
        self._mismatches: dict[tuple[str, str, bool], SignatureMismatch] = {}

    def find(self, call: Call, plan: PadPlan | None = None) -> list[Record]:
        """Return the records of a call's signature, or of the one that it is padded to.

        SignatureMismatch if there are none, or if the call's static data is not that of their
        templates.
        """
        key = plan.key if plan else call.signature.key()
        records = self.package.index.records(self.function.name, key)
        if not records:
            raise self._left_out(call) or self._mismatch(call, self._host(call))
        return self._equal(call, records) if call.compared else records

    def verdicts(self, call: Call, records: list[Record]) -> tuple[Verdict, ...]:
        """Return the verdicts on records for the devices that a call may use, the best first."""
        return select(records, self._host(call))

    def select(self, call: Call, verdicts: tuple[Verdict, ...]) -> Record:
        """Return the record of the best verdict; NoExecutable if all are refused."""
        if verdicts[0].fits:
            return verdicts[0].record
        trace = refusal_trace(verdicts, self._host(call))
        labels = {verdict.record.provenance.get("label") for verdict in verdicts}
        trace += left_out(self.package.index).lines(self.function.name, labels)
        trace += self.package.absent
        summary = "no executable may run here"
        raise NoExecutable(self.function.name, summary, trace, _REFUSED_REMEDY)

    def place(self, call: Call, record: Record) -> Placement:
        """Return where an executable runs a call; InvalidArgument if an argument prevents it.

        NoExecutable instead where a fallback may serve the call.
        """
        try:
            placement: Placement = self.package.backend.place(call, record, self._devices(call))
            return placement
        except InvalidArgument as err:
            if self.package.fallback_policy == "none":
                raise
            summary = "the arguments are placed where no executable runs"
            trace = str(err).splitlines()
            raise NoExecutable(self.function.name, summary, trace, _REFUSED_REMEDY) from err

    def _host(self, call: Call) -> Host:
        return self.package.probe(self._devices(call))

    def _devices(self, call: Call) -> DeviceSet:
        return self._chosen or self.package.backend.devices_of_call(call)

    def _equal(self, call: Call, records: list[Record]) -> list[Record]:
        """Return the records to whose templates a call's static data is equal."""
        trees = self.package.backend.trees
        lines = [differences(call, record, trees) for record in records]
        equal = [record for record, unequal in zip(records, lines, strict=True) if not unequal]
        if not equal:
            summary = "an argument's static data is not what was compiled"
            raise SignatureMismatch(self.function.name, summary, lines[0], REMEDY)
        return equal

    def _left_out(self, call: Call) -> SignatureMismatch | None:
        """Return the error of a signature that failed when the wheel was built; None if not so."""
        name = self.function.name
        lines = left_out(self.package.index).of_call(name, call.signature.key()).lines(name)
        summary = "this signature is in the manifest, but failed"
        return SignatureMismatch(name, summary, lines, _FAILED_REMEDY) if lines else None

    def _mismatch(self, call: Call, host: Host) -> SignatureMismatch:
        """Return the error of a signature without records; the search is done once for each."""
        from aotbuild.runtime.mismatch import signature_mismatch

        index, backend = self.package.index, self.package.backend
        key = (call.signature.key(), host.platform, host.x64)
        known = self._mismatches.get(key)
        if known is None:
            if len(self._mismatches) >= _MOST_MISMATCHES:
                self._mismatches.clear()
            steps = leaf_steps(call.bound, backend.trees)
            known = signature_mismatch(call, steps, index, host, backend.arrays)
            if len(str(known)) <= _LONGEST_KEPT:
                self._mismatches[key] = known
        failed = left_out(index).lines(known.function)
        trace = [*known.trace, *failed, *self.package.absent]
        return SignatureMismatch(known.function, known.summary, trace, known.remedy)
