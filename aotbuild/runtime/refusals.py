"""Errors of calls that no executable serves: why, and what to do. Imported for errors only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError, InvalidArgument, NoExecutable, SignatureMismatch
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.values import cut
from aotbuild.runtime.binding import Call, leaf_paths, leaf_steps
from aotbuild.runtime.mismatch import signature_mismatch
from aotbuild.runtime.package import Package
from aotbuild.runtime.select import Verdict, refusal_trace, remedy

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host

_MOST_MISMATCHES = 1024
# Characters of one that is kept: a static value may be long.
_LONGEST_KEPT = 1 << 14


# XLA's words (jaxlib 0.10.2 and 0.12.0.1): only it knows which buffers it reuses.
_DONATED_TWICE = ("Attempt to donate the same buffer twice", "buffer that was previously donated")
_COPY_IT = "Pass a copy at one of these places, as jax.numpy.copy(x), or leave it out of donate:."


# Characters of an error in another.
_LONGEST_FOUND = 200


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
        return NoExecutable(self._function.name, summary, trace, remedy(self._package.arrays))

    def placed_elsewhere(self, error: InvalidArgument) -> NoExecutable:
        """Return the error of a call that a fallback may serve where its arguments are."""
        summary = "the arguments are placed where no executable runs"
        trace = str(error).splitlines()
        return NoExecutable(self._function.name, summary, trace, remedy(self._package.arrays))

    def donated_twice(self, error: Exception, record: Record, call: Call) -> InvalidArgument | None:
        """Return the error for an array that is passed twice and donated, if XLA said so."""
        if not any(sign in str(error) for sign in _DONATED_TWICE):
            return None
        donated, first = set(record.calling.donated), dict[int, int]()
        for index, leaf in enumerate(call.leaves):
            other = first.setdefault(id(leaf), index)
            if other != index and donated & {other, index}:
                paths = leaf_paths(call.bound, self._package.backend.trees)
                expected = "an array that is at one place only, because its buffer is donated"
                found = f"the array that is also {paths[other]}"
                name = self._function.name
                return InvalidArgument(name, paths[index], expected, found, _COPY_IT)
        return None

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


def not_made(record: Record, error: BaseException) -> AotbuildError:
    """Return the error of a result whose types do not take the parts that a record has for them."""
    found = cut(f"{type(error).__name__}: {error}", _LONGEST_FOUND)
    msg = (
        f"{record}: calling.out_tree: the result cannot be made\n"
        f"  expected types that take their parts\n  found    {found}\n"
        "Install the packages that define its types, in the versions of the build; or reinstall "
        "the wheel."
    )
    return AotbuildError(msg)
