"""Trace a function a second time; refuse it if its program depends on more than its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.worker import private as jax_private
from aotbuild.worker.jaxprs import body_of
from aotbuild.worker.purity.compare import Difference, first_difference
from aotbuild.worker.purity.findings import Findings
from aotbuild.worker.purity.normalize import without_addresses
from aotbuild.worker.purity.reads import watched
from aotbuild.worker.purity.snapshot import take_snapshot


class Purity:
    """The check of one function: call `trace`, then `check`."""

    def __init__(self, job: Job, function: Any) -> None:
        # Before the first trace: making a context makes all of jax's caches miss once.
        _context()
        self._is_strict = job.function.purity == "strict"
        self._found = Findings(job.call, function, [take_snapshot(job.call, function)])

    def trace(self, trace: Callable[[], Any]) -> Any:
        """Trace for the first time; return what `trace` does.

        TraceRefused if it reads what the trace of another function left.
        """
        try:
            traced = self._watched(trace, shifted=False)
        except TraceRefused:
            self._found.put_back()
            raise
        if _reads_kept_tracers(traced):
            raise TraceRefused(self._found.reads_what_was_left())
        return traced

    def check(self, first: Any, trace_again: Callable[[], Any]) -> tuple[str, ...]:
        """Compare a trace with another one of the same function; return notes about side effects.

        Both are `jax.stages.Traced`. The second one sees another time and other random numbers.
        TraceRefused names the first equation that differs, or the place where a traced value was
        left that the second trace reads. If that is a cache in an object of a library's, the second
        trace is repeated with what the object had before the first.
        """
        found = self._found
        try:
            refusal = self._again(first, trace_again, 1)
            if refusal and found.is_only_cached() and found.put_back():
                del found.moments[2:], found.reads[1:]
                found.was_repeated = True
                refusal = self._again(first, trace_again, 2)
        finally:
            found.put_back()
        if refusal:
            raise refusal
        if self._is_strict and (problem := found.strictly()):
            raise TraceRefused(problem)
        return tuple(found.notes())

    def _again(
        self, first: Any, trace_again: Callable[[], Any], number: int
    ) -> TraceRefused | None:
        """Trace in the context of this number; return what refuses the function, or None."""
        found = self._found
        try:
            # Another value of a context makes jax trace again, also functions under jit inside.
            with _context()(number):
                second = self._watched(trace_again, shifted=True)
        except TraceRefused as err:
            is_kept = isinstance(err.__cause__, jax.errors.UnexpectedTracerError) and found.leaks()
            refusal = TraceRefused(found.keeps() if is_kept else found.raises(err))
            refusal.__cause__ = err
            return refusal
        difference = first_difference(first.jaxpr, second.jaxpr) or _trees_differ(first, second)
        if difference is None:
            return None
        if not _reads_kept_tracers(second):
            return TraceRefused(found.differs(difference))
        if found.leaks():
            return TraceRefused(found.keeps())
        what = f"{difference.what}; the second trace reads a value that the first left somewhere"
        return TraceRefused(found.differs(replace(difference, what=what)))

    def _watched(self, trace: Callable[[], Any], *, shifted: bool) -> Any:
        found = self._found
        try:
            with watched(shifted=shifted) as watch:
                found.reads.append(watch.reads)
                return trace()
        finally:
            found.moments.append(take_snapshot(found.call, found.function))


@functools.cache
def _context() -> Any:
    return jax.make_user_context(0)


def _reads_kept_tracers(traced: Any) -> bool:
    """Return whether a `jax.stages.Traced` has values of another trace: they are inputs, then."""
    return len(body_of(traced.jaxpr).invars) > jax_private.argument_leaves(traced)


def _trees_differ(first: Any, second: Any) -> Difference | None:
    trees = [without_addresses(trace.out_tree) for trace in (first, second)]
    return Difference("the results form other trees", *trees) if trees[0] != trees[1] else None
