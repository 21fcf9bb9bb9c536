"""What the traces of a function read, kept and changed, as the texts of errors and notes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aotbuild.build.sources import place_text
from aotbuild.worker.purity.changes import Leak, describe_changes, kept_tracers
from aotbuild.worker.purity.compare import Difference
from aotbuild.worker.purity.reads import Read
from aotbuild.worker.purity.snapshot import Snapshot

_ADVICE = (
    "An executable repeats what its trace saw. Pass what changes as an argument, draw random "
    "numbers with jax.random from a key that is passed in, and keep clocks, counters and caches "
    "outside; `purity: skip` compiles the first trace as it is."
)
_KEPT_ADVICE = (
    "A traced value means nothing after its trace. Return it, and keep it outside the function "
    "(functools.cache and cached_property keep what they return)."
)


@dataclass
class Findings:
    """What was found about a function.

    `moments` has the state around it before the first trace and after each one, `reads` what each
    trace read. `was_repeated` says that the second trace was repeated, without kept values.
    """

    call: str
    function: Any
    moments: list[Snapshot]
    reads: list[dict[Read, None]] = field(default_factory=list)
    was_repeated: bool = False

    def leaks(self) -> list[Leak]:
        """Return what keeps values of the first trace, or else of the second."""
        before, *later = self.moments
        return next(filter(None, (kept_tracers(before, moment) for moment in later)), [])

    def is_only_cached(self) -> bool:
        """Return whether the second trace left what the first kept as it was: it is no state."""
        before, first, second = self.moments
        kept = all(second.tracers.get(place) is value for place, value in first.tracers.items())
        return bool(kept_tracers(before, first)) and kept and not kept_tracers(first, second)

    def put_back(self) -> bool:
        """Take kept values out of libraries' objects; return whether they had any."""
        contents = self.moments[0].contents if self.leaks() else []
        changed = [each.put_back() for each in contents]
        return any(changed)

    def reads_what_was_left(self) -> str:
        """Return the error where the first trace reads what another function's trace left."""
        lines = "".join(f"  {leak}\n" for leak in kept_tracers(Snapshot(), self.moments[-1]))
        return f"{self.call} reads a traced value that another trace left\n{lines}{_KEPT_ADVICE}"

    def keeps(self) -> str:
        """Return the error where traced values are kept that must not be."""
        lines = []
        for leak in self.leaks():
            made = f" made\n{place_text(leak.line)}" if leak.line else " which is an argument\n"
            lines.append(f"{self.call} keeps {leak.values} in {leak.place},{made}")
        return f"{''.join(lines)}{_KEPT_ADVICE}"

    def raises(self, error: Exception) -> str:
        """Return the text of an error that only the second trace raises."""
        return (
            f"{self.call} is not pure: traced once, it raises when traced again\n"
            f"{error}\n{self._causes()}{_ADVICE}"
        )

    def differs(self, difference: Difference) -> str:
        """Return the error where the second program is another one."""
        rows = (
            ("first trace: ", difference.first),
            ("second trace:", difference.second),
            ("difference:  ", difference.what),
        )
        shown = "".join(f"  {title} {text}\n" for title, text in rows if text)
        return (
            f"{self.call} is not pure: traced twice, it gave two programs\n"
            f"{place_text(difference.line or _definition(self.function))}{shown}"
            f"{self._causes()}{_ADVICE}"
        )

    def strictly(self) -> str:
        """Return why `purity: strict` refuses equal programs, or ""."""
        if self.leaks():
            return self.keeps()
        once = [read for read in self.reads[0] if not read.is_file and read not in self.reads[1]]
        lines = "".join(f"  {read}\n" for read in once)
        title = f"{self.call} may keep what only its first trace read"
        return lines and f"{title}\n{lines}{_ADVICE}"

    def notes(self) -> Iterator[str]:
        """Yield what the user should know of a function whose programs are equal."""
        outcome = "tracing again, nothing read it"
        if self.was_repeated:
            outcome = "without it, tracing again gave the same program"
        for leak in self.leaks():
            yield f"{leak}, {f'made at {leak.line}' if leak.line else 'an argument'}; {outcome}"
        for read in dict.fromkeys((*self.reads[0], *self.reads[1])):
            if read.is_file:
                yield f"{read}: the executable contains what was in it"
            elif read not in self.reads[1]:
                yield f"{read}, the first time only: a value that is kept is in the executable"
            # Libraries time and name things for themselves.
            elif not read.is_librarys:
                yield f"{read}: with another value, the program is the same"
        yield from describe_changes(*self.moments)

    def _causes(self) -> str:
        """Return lines that name what was read or changed: one of them is probably the cause."""
        reads = dict.fromkeys(read for reads in self.reads for read in reads)
        own = (read for read in reads if not read.is_librarys)
        # They mostly read clocks for their logs.
        others = (f"{read}, perhaps without effect" for read in reads if read.is_librarys)
        lines = (*own, *self.leaks(), *describe_changes(*self.moments), *others)
        return "".join(f"  {line}\n" for line in lines)


def _definition(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_qualname}" if code else ""
