"""Exit codes: the same for all commands, so that scripts can rely on them."""

from __future__ import annotations

from aotbuild.errors import AotbuildError, BuildError, ManifestError, NoGpu, PlanError, ProjectError

OK = 0
INTERNAL = 1
USAGE = 2
MANIFEST = 3
BUILD = 4
FAILED = 5
FILES = 6
INTERRUPTED = 130

# What `aotbuild --help` says of them.
MEANINGS = {
    OK: "done",
    INTERNAL: "an unexpected error; please report it",
    USAGE: "wrong arguments, or a package that the command needs is not installed",
    MANIFEST: "the manifest, or what it asks for in this project, cannot be built",
    BUILD: "a unit failed to trace, compile or tune",
    FAILED: "what was checked is not so: verify, doctor, diff --exit-code, --check",
    FILES: "a file, wheel or package is missing, damaged, or cannot be written",
    INTERRUPTED: "interrupted by a signal; nothing is half-written",
}

# Import names of what the extra `build` brings and the command line uses.
_EXTRA = frozenset(
    {"installer", "jinja2", "markupsafe", "packaging", "pydantic", "pydantic_core", "rich", "yaml"}
)

_BY_TYPE: tuple[tuple[type[BaseException], int], ...] = (
    (ManifestError, MANIFEST),
    (PlanError, MANIFEST),
    (ProjectError, MANIFEST),
    (BuildError, BUILD),
    (NoGpu, FAILED),
    (AotbuildError, FILES),
    (OSError, FILES),
    (MemoryError, FILES),
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
    if package == "numpy":  # jaxlib brings it
        return package, package
    return (package, "aotbuild[build]") if package in _EXTRA else None
