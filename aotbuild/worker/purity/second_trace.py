"""Trace a function a second time; refuse it if its program depends on more than its arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import jax

from aotbuild.build.jobs import Job
from aotbuild.build.sources import place_text
from aotbuild.errors import TraceRefused
from aotbuild.worker import private as jax_private
from aotbuild.worker.jaxprs import body_of
from aotbuild.worker.purity.compare import Difference, first_difference
from aotbuild.worker.purity.normalize import without_addresses
from aotbuild.worker.purity.reads import Read, watched
from aotbuild.worker.purity.snapshot import (
    Leak,
    Snapshot,
    describe_changes,
    kept_tracers,
    take_snapshot,
)

_ADVICE = (
    "An executable repeats what its trace saw. Pass what changes as an argument, draw random "
    "numbers with jax.random from a key that is passed in, and keep clocks, counters and caches "
    "outside; `purity: skip` compiles the first trace as it is."
)
_KEPT_ADVICE = (
    "A traced value means nothing after its trace. Return it, and keep it outside the function "
    "(functools.cache and cached_property keep what they return)."
)


class Purity:
    """The state around a function before, between and after its traces."""

    def __init__(self, job: Job, function: Any) -> None:
        # Before the first trace: making a context makes all of jax's caches miss once.
        _context()
        self._job, self._function = job, function
        self._moments = [take_snapshot(job.call, function)]
        self._reads: list[dict[Read, None]] = []
        self._outcome = "tracing again, nothing read it"

    def trace(self, trace: Callable[[], Any]) -> Any:
        """Trace for the first time; return what `trace` does.

        TraceRefused if it reads what the trace of another function left.
        """
        try:
            traced = self._watched(trace, shifted=False)
        except TraceRefused:
            self._put_back()
            raise
        if _reads_kept_tracers(traced):
            left = kept_tracers(Snapshot(), self._moments[-1])
            lines = "".join(f"  {leak}\n" for leak in left)
            call = self._job.call
            msg = f"{call} reads a traced value that another trace left\n{lines}{_KEPT_ADVICE}"
            raise TraceRefused(msg)
        return traced

    def check(self, first: Any, trace_again: Callable[[], Any]) -> tuple[str, ...]:
        """Compare a trace with another one of the same function; return notes about side effects.

        Both are `jax.stages.Traced`. The second one sees another time and other random numbers.
        TraceRefused names the first equation that differs, or the place where a traced value was
        left that the second trace reads. If a cache of a library's has it, the second trace is
        repeated without.
        """
        try:
            refusal = self._again(first, trace_again, 1)
            if refusal and self._is_only_cached() and self._put_back():
                del self._moments[2:], self._reads[1:]
                self._outcome = "without it, tracing again gave the same program"
                refusal = self._again(first, trace_again, 2)
        finally:
            self._put_back()
        if refusal:
            raise refusal
        if self._job.function.purity == "strict":
            self._check_strictly()
        return (*self._notes(), *describe_changes(*self._moments))

    def _again(
        self, first: Any, trace_again: Callable[[], Any], number: int
    ) -> TraceRefused | None:
        """Trace in the context of this number; return what refuses the function, or None."""
        try:
            # Another value of a context makes jax trace again, also functions under jit inside.
            with _context()(number):
                second = self._watched(trace_again, shifted=True)
        except TraceRefused as err:
            refusal = TraceRefused(self._raised(err))
            refusal.__cause__ = err
            return refusal
        difference = first_difference(first.jaxpr, second.jaxpr) or _trees_differ(first, second)
        if difference is None:
            return None
        leaks = self._leaks() if _reads_kept_tracers(second) else []
        return TraceRefused(self._leaks_text(leaks) if leaks else self._refusal(difference))

    def _is_only_cached(self) -> bool:
        """Return whether the second trace left what the first kept as it was: it is no state."""
        before, first, second = self._moments
        kept = all(second.tracers.get(place) is value for place, value in first.tracers.items())
        return bool(kept_tracers(before, first)) and kept and not kept_tracers(first, second)

    def _put_back(self) -> bool:
        """Take kept values out of libraries' objects; return whether they had any."""
        contents = self._moments[0].contents if self._leaks() else []
        changed = [each.put_back() for each in contents]
        return any(changed)

    def _watched(self, trace: Callable[[], Any], *, shifted: bool) -> Any:
        try:
            with watched(shifted=shifted) as watch:
                self._reads.append(watch.reads)
                return trace()
        finally:
            self._moments.append(take_snapshot(self._job.call, self._function))

    def _leaks(self) -> list[Leak]:
        """Return what keeps values of the first trace, or else of the second."""
        before, *later = self._moments
        return next(filter(None, (kept_tracers(before, moment) for moment in later)), [])

    def _raised(self, error: TraceRefused) -> str:
        """Return the text of an error that only the second trace raises."""
        leaks = self._leaks()
        if leaks and isinstance(error.__cause__, jax.errors.UnexpectedTracerError):
            return self._leaks_text(leaks)
        return (
            f"{self._job.call} is not pure: traced once, it raises when traced again\n"
            f"{error}\n{self._causes()}{_ADVICE}"
        )

    def _leaks_text(self, leaks: list[Leak]) -> str:
        lines = []
        for leak in leaks:
            made = f" made\n{place_text(leak.line)}" if leak.line else " which is an argument\n"
            lines.append(f"{self._job.call} keeps {leak.values} in {leak.place},{made}")
        return f"{''.join(lines)}{_KEPT_ADVICE}"

    def _check_strictly(self) -> None:
        """Refuse traced values that are kept, and what only the first trace read."""
        leaks = self._leaks()
        if leaks:
            raise TraceRefused(self._leaks_text(leaks))
        once = [read for read in self._reads[0] if not read.is_file and read not in self._reads[1]]
        if once:
            lines = "".join(f"  {read}\n" for read in once)
            msg = f"{self._job.call} may keep what only its first trace read\n{lines}{_ADVICE}"
            raise TraceRefused(msg)

    def _notes(self) -> Iterator[str]:
        for leak in self._leaks():
            made = f"made at {leak.line}" if leak.line else "an argument"
            yield f"{leak}, {made}; {self._outcome}"
        for read in dict.fromkeys((*self._reads[0], *self._reads[1])):
            if read.is_file:
                yield f"{read}: the executable contains what was in it"
            elif read in self._reads[1]:
                # Libraries time and name things for themselves.
                if "-packages" not in read.line:
                    yield f"{read}: with another value, the program is the same"
            else:
                yield f"{read}, the first time only: a value that is kept is in the executable"

    def _refusal(self, difference: Difference) -> str:
        rows = (
            ("first trace: ", difference.first),
            ("second trace:", difference.second),
            ("difference:  ", difference.what),
        )
        shown = "".join(f"  {title} {text}\n" for title, text in rows if text)
        return (
            f"{self._job.call} is not pure: traced twice, it gave two programs\n"
            f"{place_text(difference.line or _definition(self._function))}{shown}"
            f"{self._causes()}{_ADVICE}"
        )

    def _causes(self) -> str:
        """Return lines that name what was read or changed: one of them is probably the cause."""
        reads = dict.fromkeys(read for reads in self._reads for read in reads)
        lines = (*reads, *self._leaks(), *describe_changes(*self._moments))
        return "".join(f"  {line}\n" for line in lines)


@functools.cache
def _context() -> Any:
    return jax.make_user_context(0)


def _reads_kept_tracers(traced: Any) -> bool:
    """Return whether a `jax.stages.Traced` has values of another trace: they are inputs, then."""
    return len(body_of(traced.jaxpr).invars) > jax_private.argument_leaves(traced)


def _trees_differ(first: Any, second: Any) -> Difference | None:
    trees = [without_addresses(trace.out_tree) for trace in (first, second)]
    return Difference("the results form other trees", *trees) if trees[0] != trees[1] else None


def _definition(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_qualname}" if code else ""
