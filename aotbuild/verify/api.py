"""`verify`: check the bytes of a package, then load and call its executables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import InvalidIndex, PackageNotFound
from aotbuild.format.index import FOLDER_NAME
from aotbuild.format.layout import home_of
from aotbuild.runtime.api import locate
from aotbuild.verify.children import Children
from aotbuild.verify.contents import (
    CHECKS,
    Contents,
    check_contents,
    check_wheel_file,
    files_of_folder,
    files_of_wheel,
)
from aotbuild.verify.jobs import Job
from aotbuild.verify.outcome import GOLDEN, LOAD, Outcome, Report, concluded, not_checked

# Of the golden outputs that a build has a minute for, also on a slower machine.
DEFAULT_TIMEOUT = 300.0
NOT_RUN = "--no-run: no native code was loaded"
FAILED = "its files failed; nothing of it is loaded"


@dataclass(frozen=True)
class Examined:
    """The result of reading a place; `path` is its `_aot` folder or the wheel."""

    outcomes: tuple[Outcome, ...]
    contents: Contents
    path: str

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(outcome.status.is_failure for outcome in self.outcomes)


def verify(place: str, *, load: bool = True, timeout: float = DEFAULT_TIMEOUT) -> Report:
    """Verify a package, a folder or a wheel, and return the report.

    Args:
        place: The name of a package, or a path.
        load: Whether to load and call executables.
        timeout: Seconds for loading and calling one executable.

    Raises:
        PackageNotFound, NoArtifacts: There is no package.
        ModuleNotFoundError: It is a wheel, and `installer` is not installed.
    """
    examined = examine(place)
    contents, path = examined.contents, examined.path
    if load and not examined.failed:
        jobs = [Job(path, record) for record in contents.records]
        loads = Children(timeout).run(jobs)
    else:
        reason = FAILED if examined.failed else NOT_RUN
        subjects = [str(record) for record in contents.records]
        loads = [not_checked(name, s, reason) for s in subjects for name in (LOAD, GOLDEN)]
    kind = "wheel" if path.endswith(".whl") else "folder"
    outcomes = (*examined.outcomes, *loads)
    return Report(place, kind, contents.package, outcomes)


def examine(place: str | Path) -> Examined:
    """Verify a place by reading it; load no native code.

    A str may be the name of a package; a Path is a path. Raises as `verify`.
    """
    if str(place).endswith(".whl"):
        return _examine_wheel(Path(place))
    source = locate(place)
    folder = Path(source.path)
    contents = check_contents(source, files_of_folder(folder))
    return Examined(contents.outcomes, contents, source.path)


def _examine_wheel(wheel: Path) -> Examined:
    if not wheel.is_file():
        raise PackageNotFound(str(wheel), [str(wheel)])
    archive = check_wheel_file(wheel)
    if archive.status.is_failure:
        rest = [not_checked(name, wheel.name, "the archive failed") for name in CHECKS]
        return Examined((archive, *rest), Contents(()), str(wheel))
    try:
        source = locate(wheel)
    except InvalidIndex as err:
        failure = concluded("index", wheel.name, [str(err)])
        return Examined((archive, failure), Contents(()), str(wheel))
    try:
        contents = check_contents(source, files_of_wheel(wheel))
    finally:
        source.close()
    package = _check_package(wheel, source.path, contents)
    return Examined((archive, *contents.outcomes, package), contents, str(wheel))


def _check_package(wheel: Path, place: str, contents: Contents) -> Outcome:
    """Check that `_aot` is inside the package that its index names."""
    folder = place.removeprefix(f"{wheel}/")
    home = home_of(contents.header)
    expected = f"{(home or '').replace('.', '/')}/{FOLDER_NAME}"
    is_there = not home or folder == expected
    problems = [] if is_there else [f"the index is of {home}: expected {expected}"]
    return concluded("package", folder, problems)
