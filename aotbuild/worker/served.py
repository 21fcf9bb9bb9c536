"""Which jobs a process may still run, after what it has imported and what its jobs have changed.

In the user's own process, a function's modules are imported and no others, and nothing was traced
before it. A module may patch a library, set a mode, or register something while it is imported; so
a process serves only functions that name all modules which it has imported for others. Where a job
replaces values of the project, the process serves no further job. Where it imports modules of the
project that no function names, as code does that imports in functions, it serves only jobs that
name the same as that one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Set

from aotbuild.worker.config import named_modules
from aotbuild.worker.purity.changes import replaces_values
from aotbuild.worker.purity.snapshot import Snapshot, take_state
from aotbuild.worker.recording.owners import kind_of


class Served:
    """What this process has imported for jobs, and the project's state when the last one ended.

    `imported` are the modules that were imported because jobs name them, without what these import.
    """

    def __init__(self, imported: Set[str]) -> None:
        self._imported = imported
        self._only: tuple[str, ...] | None = None
        self._is_over = False
        self._own = frozenset[str]()
        self._state: Snapshot | None = None

    def may_run(self, references: Iterable[str]) -> bool:
        """Return whether a job that names these `module:qualname`s finds what it would alone."""
        references = tuple(references)
        is_same = self._only is None or self._only == references
        return not self._is_over and is_same and self._imported <= {*named_modules(references)}

    def serve_no_other(self) -> None:
        """Serve no job after this one."""
        self._is_over = True

    def begin(self) -> None:
        """Begin a job whose modules are imported."""
        own = _own_modules()
        if self._state is None or own != self._own:
            self._own, self._state = own, take_state(own)

    def end(self, references: Iterable[str]) -> None:
        """End a job that names these: compare the project's state with that at its beginning."""
        before, own = self._state, _own_modules()
        if before is None or self._is_over:
            return
        if own != self._own:
            self._only = tuple(references)
        self._own, self._state = own, take_state(own)
        self._is_over = replaces_values(before, self._state)


def _own_modules() -> frozenset[str]:
    """Return the names of the user's own modules that are imported."""
    files = ((name, getattr(module, "__file__", None)) for name, module in [*sys.modules.items()])
    return frozenset(n for n, file in files if isinstance(file, str) and kind_of(n, file) == "own")
