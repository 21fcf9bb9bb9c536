"""Trace a function a second time; refuse it if its program depends on more than its arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax

from aotbuild.build.jobs import Job
from aotbuild.build.sources import place_text
from aotbuild.errors import TraceRefused
from aotbuild.worker.purity.compare import Difference, first_difference
from aotbuild.worker.purity.normalize import without_addresses
from aotbuild.worker.purity.snapshot import (
    describe_changes,
    kept_tracers,
    random_states,
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
    """The state around a function before its first trace, to compare with later."""

    def __init__(self, job: Job, function: Any) -> None:
        # Before the first trace: making a context makes all of jax's caches miss once.
        _second_context()
        self._job, self._function = job, function
        self._states = random_states()
        self._moments = [take_snapshot(job.call, function)]

    def check(self, first: Any, trace_again: Callable[[], Any]) -> tuple[str, ...]:
        """Compare a trace with another one of the same function; return notes about side effects.

        Both are `jax.stages.Traced`. TraceRefused names the first equation that differs, or the
        place where a traced value was left.
        """
        self._check_tracers()
        try:
            # Another value of a context makes jax trace again, also functions under jit inside.
            with _second_context()(True):
                second = trace_again()
        except TraceRefused as err:
            self._moments.append(take_snapshot(self._job.call, self._function))
            msg = (
                f"{self._job.call} is not pure: traced once, it raises when traced again\n"
                f"{err}\n{self._causes()}{_ADVICE}"
            )
            raise TraceRefused(msg) from err
        self._check_tracers()
        difference = first_difference(first.jaxpr, second.jaxpr) or _trees_differ(first, second)
        if difference is not None:
            raise TraceRefused(self._refusal(difference))
        return describe_changes(*self._moments)

    def _check_tracers(self) -> None:
        """Take a snapshot after a trace; TraceRefused names each traced value in it."""
        self._moments.append(take_snapshot(self._job.call, self._function))
        lines = []
        for place, line in kept_tracers(self._moments[0], self._moments[-1]):
            made = f", made\n{place_text(line)}" if line else ", which is an argument\n"
            lines.append(f"{self._job.call} keeps a traced value in {place}{made}")
        if lines:
            raise TraceRefused("".join(lines) + _KEPT_ADVICE)

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
        """Return lines that name what changed: one of them is probably the cause."""
        states = random_states()
        drawn = [
            f"random numbers were drawn from `{name}`"
            for name, state in states.items()
            if state != self._states[name]
        ]
        return "".join(f"  {line}\n" for line in (*drawn, *describe_changes(*self._moments)))


@functools.cache
def _second_context() -> Any:
    return jax.make_user_context(False)


def _trees_differ(first: Any, second: Any) -> Difference | None:
    trees = [without_addresses(jax.tree.structure(trace.out_info)) for trace in (first, second)]
    return Difference("the results form other trees", *trees) if trees[0] != trees[1] else None


def _definition(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_qualname}" if code else ""
