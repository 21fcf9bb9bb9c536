"""Verifying a place: archive, then files, then executables; a later step needs the earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aotbuild.errors import InvalidIndex, PackageNotFound
from aotbuild.runtime.locate import locate
from aotbuild.spec.record import Record
from aotbuild.verify import requirements
from aotbuild.verify.archive import check_archive
from aotbuild.verify.contents import (
    CHECKS,
    Contents,
    check_contents,
    files_of_folder,
    files_of_wheel,
)
from aotbuild.verify.outcome import Outcome, Report, concluded, not_checked
from aotbuild.verify.process import CHECK, Children, Job
from aotbuild.verify.zip_layout import Limits

DEFAULT_TIMEOUT = 60.0
NOT_RUN = "--no-run: no native code was loaded"
UNTRUSTED = "its files failed; nothing of it is loaded"


@dataclass(frozen=True)
class Options:
    """How to verify: whether executables are loaded, and how many seconds each may take."""

    load: bool = True
    timeout: float = DEFAULT_TIMEOUT
    workers: int | None = None
    limits: Limits = field(default_factory=Limits)


def ignore(_: Outcome) -> None:
    """Do nothing with an outcome."""


def verify(place: str, options: Options, done: Callable[[Outcome], None] = ignore) -> Report:
    """Return what could be verified of a package, a folder or a wheel.

    Calls `done` with each outcome as it comes. PackageNotFound or NoArtifacts if there is nothing.
    """
    is_wheel = place.endswith(".whl")
    outcomes, contents, path = _check_wheel(Path(place), options) if is_wheel else _check(place)
    for outcome in outcomes:
        done(outcome)
    failed = any(outcome.status.is_failure for outcome in outcomes)
    reason = UNTRUSTED if failed else None if options.load else NOT_RUN
    loads = _load(path, contents.records, reason, options, done)
    package = contents.header.get("package")
    return Report(
        place=place,
        kind="wheel" if is_wheel else "folder",
        package=None if package is None else str(package),
        outcomes=(*outcomes, *loads),
    )


def _check(place: str) -> tuple[list[Outcome], Contents, str]:
    """Check an installed package or a folder; also return the path of its `_aot`."""
    source = locate(place)
    contents = check_contents(source, files_of_folder(Path(source.place)))
    required = requirements.check_installed(Path(source.place), contents.records)
    return [*contents.outcomes, required], contents, source.place


def _check_wheel(wheel: Path, options: Options) -> tuple[list[Outcome], Contents, str]:
    if not wheel.is_file():
        raise PackageNotFound(str(wheel), [str(wheel)])
    archive = check_archive(wheel, options.limits)
    if any(outcome.status.is_failure for outcome in archive):
        names = (*CHECKS, requirements.CHECK)
        rest = [not_checked(name, wheel.name, "the archive failed") for name in names]
        return [*archive, *rest], Contents((), {}), str(wheel)
    try:
        source = locate(wheel)
    except InvalidIndex as err:
        return [*archive, concluded("index", wheel.name, [str(err)])], Contents((), {}), str(wheel)
    try:
        contents = check_contents(source, files_of_wheel(wheel))
    finally:
        source.close()
    package = _check_package(wheel, source.place, contents)
    required = requirements.check_wheel(wheel, contents.records)
    return [*archive, *contents.outcomes, package, required], contents, str(wheel)


def _check_package(wheel: Path, place: str, contents: Contents) -> Outcome:
    """Check that `_aot` is inside the package that its index names."""
    folder = place.removeprefix(f"{wheel}/")
    package = str(contents.header.get("package", ""))
    expected = f"{package.replace('.', '/')}/_aot"
    is_there = not package or folder == expected
    problems = [] if is_there else [f"the index is of {package}: expected {expected}"]
    return concluded("package", folder, problems)


def _load(
    path: str,
    records: Sequence[Record],
    reason: str | None,
    options: Options,
    done: Callable[[Outcome], None],
) -> list[Outcome]:
    if reason is not None:
        return [not_checked(CHECK, str(record), reason) for record in records]
    children = Children(options.timeout, options.workers)
    return children.run([Job(path, record) for record in records], done)
