"""The choice of an executable for a flattened call, or the error that says why there is none."""

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
    from aotbuild.runtime.backend import Backend, Placement
    from aotbuild.runtime.padding import PaddedCalls, PadPlan

_MOST_MISMATCHES = 1024
# Characters of one that is kept: a static value may be long.
_LONGEST_KEPT = 1 << 14
_REFUSED_REMEDY = (
    "Change what a reason names, install a wheel that was built for this host, or set "
    "AOTBUILD_FALLBACK=portable or =jit."
)
_FAILED_REMEDY = "Mend what failed and build again, or set AOTBUILD_FALLBACK=jit."


class Choice:
    """Chooses among the executables of one function; the verdicts on them depend on the host."""

    def __init__(
        self,
        package: Package,
        backend: Backend,
        function: Function,
        devices: DeviceSet | None,
        padded: PaddedCalls | None,
    ) -> None:
        """Make the choice of a function; `devices` are those that the caller chose, if any."""
        self.package = package
        self.backend = backend
        self.function = function
        self._chosen = devices
        self._padded = padded
        self._mismatches: dict[tuple[str, str, bool], SignatureMismatch] = {}

    def judge(self, call: Call, plan: PadPlan | None = None) -> tuple[Verdict, ...]:
        """Return the verdicts on the records of a call; SignatureMismatch if it has none."""
        index, name = self.package.index, self.function.name
        host = self.package.probe(self.devices(call))
        records = index.records(name, plan.key if plan else call.signature.key())
        if not records:
            raise self._left_out(call) or self._mismatch(call, host)
        return select(self._equal(call, records) if call.compared else records, host)

    def _equal(self, call: Call, records: list[Record]) -> list[Record]:
        """Return the records to whose templates a call's static data is equal."""
        trees = self.backend.trees
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

        key = (call.signature.key(), host.platform, host.x64)
        known = self._mismatches.get(key)
        if known is None:
            if len(self._mismatches) >= _MOST_MISMATCHES:
                self._mismatches.clear()
            steps = leaf_steps(call.bound, self.backend.trees)
            known = signature_mismatch(call, steps, self.package.index, host, self.backend.arrays)
            if len(str(known)) <= _LONGEST_KEPT:
                self._mismatches[key] = known
        padding = self._padded.why_not(call) if self._padded else []
        failed = left_out(self.package.index).lines(known.function)
        trace = [*known.trace, *padding, *failed, *self.package.absent]
        return SignatureMismatch(known.function, known.summary, trace, known.remedy)

    def choose(self, call: Call, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, Placement]:
        """Return the best verdict that fits, and where its executable runs this call."""
        fitting = [verdict for verdict in verdicts if verdict.fits]
        if not fitting:
            summary = "no executable may run here"
            trace = refusal_trace(verdicts, self.package.probe(self.devices(call)))
            labels = {verdict.record.provenance.get("label") for verdict in verdicts}
            trace += left_out(self.package.index).lines(self.function.name, labels)
            trace += self.package.absent
            raise NoExecutable(self.function.name, summary, trace, _REFUSED_REMEDY)
        return fitting[0], self._place(call, fitting[0])

    def _place(self, call: Call, verdict: Verdict) -> Placement:
        try:
            placement: Placement = self.backend.place(call, verdict.record, self.devices(call))
            return placement
        except InvalidArgument as err:
            if self.package.fallback_policy == "none":
                raise
            summary = "the arguments are placed where no executable runs"
            trace = str(err).splitlines()
            raise NoExecutable(self.function.name, summary, trace, _REFUSED_REMEDY) from err

    def devices(self, call: Call) -> DeviceSet:
        """Return the devices that a call may use."""
        return self._chosen or self.backend.devices_of_call(call)
