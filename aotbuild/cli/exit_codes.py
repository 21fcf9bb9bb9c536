"""Exit codes: part of the public face, so a number never changes its meaning."""

from __future__ import annotations

from aotbuild.errors import BuildError, ManifestError, PlanError

OK = 0
INTERNAL = 1
USAGE = 2
MANIFEST = 3
PLAN = 4
BUILD = 5
FILES = 6
INTERRUPTED = 130

_BY_TYPE: tuple[tuple[type[BaseException], int], ...] = (
    (ManifestError, MANIFEST),
    (PlanError, PLAN),
    (BuildError, BUILD),
    (OSError, FILES),
    (KeyboardInterrupt, INTERRUPTED),
)


def code_of(error: BaseException) -> int:
    """Return the exit code that an error ends the command with."""
    return next((code for kind, code in _BY_TYPE if isinstance(error, kind)), INTERNAL)
