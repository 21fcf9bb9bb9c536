"""Exit codes: they are public, so a number never changes its meaning."""

from __future__ import annotations

from aotbuild.build.interrupts import Terminated
from aotbuild.cli.ending import INTERRUPTED, TERMINATED
from aotbuild.errors import (
    BuildError,
    CompanionMismatch,
    DamagedBlob,
    InvalidCallLog,
    InvalidIndex,
    ManifestError,
    NoArtifacts,
    NoGpu,
    PackageNotFound,
    PlanError,
    ProjectError,
    StageNotKept,
    StagesNotFound,
    UnsupportedFormat,
    WheelRefused,
)

OK = 0
INTERNAL = 1
USAGE = 2
MANIFEST = 3
PLAN = 4
BUILD = 5
FILES = 6
PACKAGE = 7
UNUSABLE = 8
VERIFY = 9
PARTIAL = 10
STALE = 11
NOT_REPRODUCIBLE = 12
STORE_DAMAGED = 14

# Import names of what the extra `build` brings and the command line uses.
_EXTRA = frozenset(
    {"jinja2", "markupsafe", "packaging", "pydantic", "pydantic_core", "rich", "tomlkit", "yaml"}
)
# The commands that read arrays of weights need it; jaxlib brings it.
_ARRAYS = "numpy"

_BY_TYPE: tuple[tuple[type[BaseException], int], ...] = (
    (ManifestError, MANIFEST),
    (PlanError, PLAN),
    (ProjectError, PLAN),
    (BuildError, BUILD),
    (NoGpu, UNUSABLE),
    (PackageNotFound, PACKAGE),
    (NoArtifacts, PACKAGE),
    (InvalidIndex, PACKAGE),
    (UnsupportedFormat, PACKAGE),
    (DamagedBlob, PACKAGE),
    (CompanionMismatch, PACKAGE),
    (WheelRefused, PACKAGE),
    (StageNotKept, PACKAGE),
    (StagesNotFound, PACKAGE),
    (InvalidCallLog, FILES),
    (OSError, FILES),
    (MemoryError, FILES),
    (Terminated, TERMINATED),
    (KeyboardInterrupt, INTERRUPTED),
)


def code_of(error: BaseException) -> int:
    """Return the exit code that an error ends the command with."""
    return next((code for kind, code in _BY_TYPE if isinstance(error, kind)), INTERNAL)


def missing_extra(error: BaseException) -> tuple[str, str] | None:
    """Return the missing package that caused an error and what to install for it, else None."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    package = (error.name or "").partition(".")[0]
    if package == _ARRAYS:
        return package, package
    return (package, "aotbuild[build]") if package in _EXTRA else None
