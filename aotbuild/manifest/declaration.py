"""One function as the manifest declares it, for checks of what its parts must agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from aotbuild.manifest.dims import SIGNATURE_OPTIONS
from aotbuild.manifest.function import Function
from aotbuild.manifest.problems import Problems, Steps, dotted
from aotbuild.manifest.reading import KEY
from aotbuild.manifest.validate import Checked
from aotbuild.platforms.building import Request

# The steps to each problem from the function, or from a signature of it. KEY comes last where the
# key is wrong, not the value.
Found: TypeAlias = Iterator[tuple[Steps, str]]


@dataclass(frozen=True)
class Declaration:
    """One function, for checks: its name and options.

    For one of its `signatures:`, `prefix` leads to it: there are its args, kwargs, dims and static.
    """

    name: str
    model: Function
    checked: Checked
    problems: Problems
    prefix: Steps = ()

    def each_signature(self) -> Iterator[Declaration]:
        """Yield the function with each of its signatures only."""
        if not self.model.signatures:
            yield self
        for index, spec in enumerate(self.model.signatures):
            model = self.model.with_signature(spec)
            yield replace(self, model=model, prefix=("signatures", index))

    @property
    def broken(self) -> frozenset[str]:
        """The options that were refused already, so that no check reads them."""
        found: set[object] = set()
        for path in self.checked.broken:
            inside = path[2:]
            if path == ("targets",):
                found.add("targets")
            elif path[:2] != ("functions", self.name):
                continue
            elif inside[:1] != ("signatures",):
                found.update(inside)
            elif not self.prefix or inside[:2] == self.prefix:
                found.update(inside[2:] or ("signatures", *SIGNATURE_OPTIONS))
        return frozenset(map(str, found))

    def check(self, checks: Checks, targets: tuple[Request, ...]) -> None:
        """Report what the checks find whose options are not broken."""
        for check, needs in checks:
            if not self.broken.intersection(needs):
                self._report(check(self, targets))

    def _report(self, found: Found) -> None:
        for steps, message in found:
            self.problems.report(self._place(steps), message, key=steps[-1] == KEY)

    def _place(self, steps: Steps) -> Steps:
        prefix = self.prefix if steps[0] in SIGNATURE_OPTIONS else ()
        return ("functions", self.name, *prefix, *steps)

    def written(self, steps: Steps) -> str:
        """Return the path to a value in this function, as the YAML has it."""
        return dotted(self.problems.document.reach(self._place(steps))[2:])

    def names(self) -> tuple[str, ...]:
        """Return the names under ``args:`` and ``kwargs:`` of all signatures, each once."""
        every = self.model.each_signature
        names = (name for each in every for name in (*each.positional, *each.kwargs))
        return tuple(dict.fromkeys(names))

    def positional(self) -> tuple[str, ...]:
        """Return the names under ``args:``, in order; one may be there twice."""
        return tuple(name for arg in self.model.args for name in arg)


Check: TypeAlias = Callable[[Declaration, tuple[Request, ...]], Found]
# Each with the options that it reads.
Checks: TypeAlias = tuple[tuple[Check, tuple[str, ...]], ...]
