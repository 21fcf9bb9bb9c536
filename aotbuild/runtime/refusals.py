"""Errors of calls that no executable serves: why, and what to do. Imported for errors only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aotbuild.errors import InvalidArgument, NoExecutable, SignatureMismatch
from aotbuild.format.signature import Function
from aotbuild.runtime.binding import Call
from aotbuild.runtime.mismatch import signature_mismatch
from aotbuild.runtime.package import Package
from aotbuild.runtime.select import Verdict, refusal_trace
from aotbuild.runtime.trees import leaf_steps

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host

_MOST_MISMATCHES = 1024
# Characters of one that is kept: a static value may be long.
_LONGEST_KEPT = 1 << 14
_REFUSED_REMEDY = (
    "Change what a reason names, install a wheel that was built for this host, or set "
    "AOTBUILD_FALLBACK=portable or =jit."
)


class Refusals:
    """Makes the errors of one function's calls; the search for a mismatch is done once for each."""

    def __init__(self, package: Package, function: Function) -> None:
        self._package = package
        self._function = function
        self._mismatches: dict[tuple[str, str, bool], SignatureMismatch] = {}

    def no_signature(self, call: Call, host: Host) -> SignatureMismatch:
        """Return the error of a call whose signature has no records."""
        known = self._mismatch(call, host)
        trace = [*known.trace, *self._package.absent]
        return SignatureMismatch(self._function.name, known.summary, trace, known.remedy)

    def all_refused(self, verdicts: Sequence[Verdict], host: Host) -> NoExecutable:
        """Return the error of a call whose records are all refused by this host."""
        trace = [*refusal_trace(verdicts, host), *self._package.absent]
        summary = "no executable may run here"
        return NoExecutable(self._function.name, summary, trace, _REFUSED_REMEDY)

    def placed_elsewhere(self, error: InvalidArgument) -> NoExecutable:
        """Return the error of a call that a fallback may serve where its arguments are."""
        summary = "the arguments are placed where no executable runs"
        trace = str(error).splitlines()
        return NoExecutable(self._function.name, summary, trace, _REFUSED_REMEDY)

    def _mismatch(self, call: Call, host: Host) -> SignatureMismatch:
        key = (call.signature.key(), host.platform, host.x64)
        known = self._mismatches.get(key)
        if known is None:
            if len(self._mismatches) >= _MOST_MISMATCHES:
                self._mismatches.clear()
            backend = self._package.backend
            steps = leaf_steps(call.bound, backend.trees)
            index = self._package.index
            known = signature_mismatch(call, steps, index, host, backend.arrays)
            if len(str(known)) <= _LONGEST_KEPT:
                self._mismatches[key] = known
        return known
