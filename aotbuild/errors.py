"""Every error that aotbuild raises. All of them derive from `AotbuildError`.

A message says what failed and where, what was expected, what was found, and what to do next. The
attributes hold the same facts as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class AotbuildError(Exception):
    """The base class of all errors that aotbuild raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Python would call the class with the message alone. Then a pool of processes, or a serving
        # framework, breaks where one of its workers raises. `name` and `path` may be kept by
        # AttributeError and ImportError, outside `__dict__`.
        facts = {name: getattr(self, name) for name in ("name", "path") if hasattr(self, name)}
        return _restored, (type(self), self.args, {**facts, **vars(self)})


def _restored(kind: type[AotbuildError], args: tuple[Any, ...], facts: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    for name, value in facts.items():
        setattr(error, name, value)
    return error


# --- the manifest -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a manifest, and its position; line and column count from 1."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class ManifestError(AotbuildError):
    """The manifest cannot be used. `problems` holds all of them, in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        noun = "problem" if count == 1 else "problems"
        listing = "\n".join(str(problem) for problem in self.problems)
        super().__init__(f"{count} {noun} in the manifest:\n{listing}")


class ProjectError(AotbuildError):
    """`aotbuild init` or `record` cannot read or prepare a project. Nothing was written."""

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        self.place, self.problem, self.remedy = place, problem, remedy
        super().__init__(f"{place}: {problem}\n{remedy}")


# --- building ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnitFailure:
    """Why one build unit failed: the unit's name, the stage that failed, and what happened."""

    unit: str
    stage: str
    message: str

    def __str__(self) -> str:
        body = self.message.replace("\n", "\n    ")
        return f"{self.unit}: {self.stage}:\n    {body}"


class BuildError(AotbuildError):
    """At least one of `total` build units failed, and nothing was packaged. See `failures`."""

    def __init__(self, failures: Sequence[UnitFailure], total: int) -> None:
        self.failures = tuple(failures)
        self.total = total
        found = f"{len(self.failures)} of {total} build units failed, nothing was packaged:"
        super().__init__(f"{found}\n{listing(self.failures)}")


class SourcesEdited(BuildError):
    """Files were edited during the build, and nothing was packaged. See `files`.

    `failures` are those of units, which may have another cause.
    """

    def __init__(self, files: Sequence[str], failures: Sequence[UnitFailure] = ()) -> None:
        super().__init__(failures, len(failures))
        self.files = tuple(files)
        were = "were" if len(self.files) > 1 else "was"
        found = f"{', '.join(self.files)} {were} edited during the build"
        failed = f"\nMeanwhile these failed:\n{listing(failures)}" if failures else ""
        # In place of the message about units.
        AotbuildError.__init__(self, f"{found}; nothing was packaged: build again{failed}")


def listing(failures: Sequence[UnitFailure]) -> str:
    """Return failures as text; each message is there once, under the names of all its units."""
    return "\n".join(map(str, _merge_equal(failures)))


def _merge_equal(failures: Sequence[UnitFailure]) -> list[UnitFailure]:
    """Group the units with the same failure, so that each message is printed once."""
    groups: dict[tuple[str, str], list[UnitFailure]] = {}
    for failure in failures:
        groups.setdefault((failure.stage, failure.message), []).append(failure)
    return [
        UnitFailure("\n".join(failure.unit for failure in group), stage, message)
        for (stage, message), group in groups.items()
    ]


class PlanError(AotbuildError):
    """The manifest is valid, but this environment or project cannot build what it asks for.

    `problems` are names in the manifest that the project does not define, with their positions.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__(message)


class NoGpu(AotbuildError):
    """A command needs a GPU of this machine, and none can be used. `reason` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            "no GPU can be used here\n"
            f"  expected an NVIDIA GPU and its driver\n  found    {reason}\n"
            "Run it on the machine that has the GPU, in a container with --gpus all."
        )


class TraceRefused(AotbuildError):
    """A function contains something that cannot be stored in an executable on disk."""


# --- finding and reading a package ------------------------------------------------------------


class PackageNotFound(AotbuildError):
    """There is no package, folder or wheel of that name. `searched` holds the places."""

    def __init__(self, package: str, searched: Sequence[str], hint: str = "") -> None:
        self.package = package
        self.searched = tuple(searched)
        places = "".join(f"\n  searched {place}" for place in self.searched)
        super().__init__(
            f"no package, _aot folder or wheel {package!r} was found{places}\n"
            f"Install the wheel that was built for it, or give the path of its _aot folder.{hint}"
        )


class NoArtifacts(AotbuildError):
    """The package is there, but it has no `_aot` folder."""

    def __init__(self, package: str, searched: Sequence[str]) -> None:
        self.package = package
        self.searched = tuple(searched)
        places = "".join(f"\n  searched {place}" for place in self.searched)
        kind = "wheel" if package.endswith(".whl") else "package"
        remedy = (
            "It was installed from sources without the aotbuild hook, or with a manifest that has "
            "problems. Build its wheel with `pip wheel .` and install that, or run `aotbuild build "
            "--in-place`."
        )
        if kind == "wheel":
            remedy = (
                "It was built without the aotbuild hook, which works with the build backends "
                "hatch_aotbuild.backend and hatchling.build."
            )
        found = f"{kind} {package!r} holds no precompiled executables: no _aot/index"
        super().__init__(f"{found}{places}\n{remedy}")


class MissingJax(AotbuildError, ImportError):
    """The executables are installed, but jax is not; `version` is the one that built them."""

    def __init__(self, package: str, version: str) -> None:
        self.package, self.version = package, version
        # With several toolchains, the header of the index says "0.10.2, 0.12.0.1".
        several = version.split(", ")
        super().__init__(
            f"{package}: jax is not installed\n"
            f"  expected jax {' or '.join(several)}, which built the executables\n"
            "  found    no jax in this environment (runtime: jaxlib leaves it out)\n"
            f"Install it: {' or '.join(f'pip install jax=={each}' for each in several)}\n"
            'Or call with arrays of numpy, which takes no jax: aotbuild.load(…, arrays="numpy")'
        )


class InvalidIndex(AotbuildError):
    """The index is truncated or edited, or is not an index. Nothing in it was used."""

    def __init__(self, place: str, expected: str, found: str) -> None:
        self.place, self.expected, self.found = place, expected, found
        super().__init__(
            f"{place}: the index is damaged\n  expected {expected}\n  found    {found}\n"
            "Reinstall the wheel; if it happens again, the wheel itself is damaged."
        )


class UnsupportedFormat(AotbuildError):
    """The index has a format that this version of aotbuild does not read."""

    def __init__(self, place: str, supported: int, found: int) -> None:
        self.place, self.supported, self.found = place, supported, found
        remedy = (
            "Upgrade aotbuild."
            if found > supported
            else "Rebuild the wheel with the aotbuild that is installed."
        )
        super().__init__(
            f"{place}: the index has format {found}\n"
            f"  expected format {supported}\n  found    format {found}\n{remedy}"
        )


class DamagedBlob(AotbuildError):
    """A blob is missing, or its bytes are not the ones that were built. XLA never saw them."""

    def __init__(self, place: str, expected: str, found: str, remedy: str = "") -> None:
        self.place, self.expected, self.found = place, expected, found
        super().__init__(
            f"{place}: not the bytes that were built\n"
            f"  expected {expected}\n  found    {found}\n"
            f"{remedy or 'Reinstall the wheel, and restart the processes that use it.'}"
        )


class CompanionMismatch(AotbuildError):
    """A companion belongs to another build than its base, or is missing. Nothing was used."""

    def __init__(self, package: str, companion: str, expected: str, found: str) -> None:
        self.package, self.companion = package, companion
        self.expected, self.found = expected, found
        name = companion.partition(" ")[0]
        problem = f"its companion {companion} does not belong to it"
        remedy = (
            f"Install the version of {name} that was split from the same wheel as {package}, or "
            f"remove it: pip uninstall {name}"
        )
        super().__init__(
            f"{package}: {problem}\n  expected {expected}\n  found    {found}\n{remedy}"
        )


class WheelRefused(AotbuildError):
    """Wheels cannot be split or merged. `reasons` holds every reason."""

    def __init__(self, place: str, problem: str, reasons: Sequence[str], remedy: str) -> None:
        self.place, self.problem = place, problem
        self.reasons, self.remedy = tuple(reasons), remedy
        listing = "".join("\n  " + reason.replace("\n", "\n  ") for reason in self.reasons)
        super().__init__(f"{place}: {problem}{listing}\n{remedy} Nothing was written.")


# --- selecting and calling --------------------------------------------------------------------


class UnknownFunction(AotbuildError, AttributeError):
    """The library has no function of that name; `known` holds all names."""

    def __init__(self, package: str, name: str, known: Sequence[str], hint: str = "") -> None:
        self.package, self.name, self.known = package, name, tuple(known)
        super().__init__(
            f"{package} has no precompiled function {name!r}{hint}\n"
            f"  functions: {', '.join(self.known) or 'none'}\n"
            "Call one of these, or add it to the manifest and build again."
        )


class NoExecutable(AotbuildError):
    """No executable may run this call on this host. `trace` says why each is refused."""

    def __init__(self, function: str, summary: str, trace: Sequence[str], remedy: str) -> None:
        self.function, self.summary = function, summary
        self.trace, self.remedy = tuple(trace), remedy
        lines = "".join(f"\n  {line}" for line in self.trace)
        super().__init__(f"{function}: {summary}{lines}\n{remedy}")


class SignatureMismatch(NoExecutable, TypeError):
    """The arguments fit no compiled signature; `trace` holds the nearest and the differences."""


class InvalidArgument(AotbuildError, TypeError):
    """An argument cannot be an input of any executable, or is on the wrong devices."""

    def __init__(self, function: str, path: str, expected: str, found: str, remedy: str) -> None:
        self.function, self.path = function, path
        self.expected, self.found = expected, found
        super().__init__(
            f"{function}: argument {path}\n  expected {expected}\n  found    {found}\n{remedy}"
        )


class NotTransformable(AotbuildError, TypeError):
    """A compiled function was called inside a transformation; its source cannot be imported."""

    def __init__(self, function: str, call: str, reason: str) -> None:
        self.function, self.call, self.reason = function, call, reason
        super().__init__(
            f"{function}: called where only its source can run: inside a JAX transformation, or "
            "under jax.disable_jit\n"
            f"  expected the source {call} to be importable\n"
            f"  found    {reason}\n"
            "An executable cannot be traced through. Install the package with its source, or call "
            "the function outside jit, grad, vmap and disable_jit."
        )


# --- watching ---------------------------------------------------------------------------------


class InvalidCallLog(AotbuildError):
    """A file is no log of calls. `place` is the file and the line, `found` is what it has there."""

    def __init__(self, place: str, found: str) -> None:
        self.place, self.found = place, found
        super().__init__(
            f"{place}: not a call log\n"
            "  expected a line that this version of `aotbuild record` writes\n"
            f"  found    {found}\n"
            "Record the program again into a new file."
        )


class CompilationForbidden(AotbuildError):
    """JAX was about to trace, lower or compile where a guard forbids it. Nothing was done.

    `kind` is `tracing`, `lowering` or `compiling`; `function` is `module:qualname`, `source` and
    `caller` are the places of its definition and of the user's code that called it. `avals` are
    those of the leaves, with their paths. `trace` says what is compiled instead.
    """

    def __init__(
        self,
        kind: str,
        function: str,
        source: str,
        caller: str,
        avals: Sequence[str],
        trace: Sequence[str],
        remedy: str,
    ) -> None:
        self.kind, self.function, self.source, self.caller = kind, function, source, caller
        self.avals, self.trace, self.remedy = tuple(avals), tuple(trace), remedy
        facts = {"defined at": source, "called at": caller, "called with": listed(self.avals)}
        lines = [f"{name} {fact}" for name, fact in facts.items() if fact]
        text = "".join(f"\n  {line}" for line in [*lines, *self.trace])
        super().__init__(f"{function}: {kind} is forbidden here by aotbuild.guard{text}\n{remedy}")


_SHOWN_AVALS = 6


def listed(avals: Sequence[str]) -> str:
    """Return avals on one line; of many the first ones and the number of the others."""
    more = len(avals) - _SHOWN_AVALS
    return ", ".join(avals[:_SHOWN_AVALS]) + (f" and {more} more" if more > 0 else "")
