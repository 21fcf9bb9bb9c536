"""`aotbuild release-check`: the files of a release, together, before an index has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import JSON, UsageError, argument, command, existing_place
from aotbuild.cli.exit_codes import VERIFY
from aotbuild.cli.github import Annotation
from aotbuild.cli.output import Output
from aotbuild.report.words import bytes_text, plural, printable

if TYPE_CHECKING:
    from aotbuild.verify.release import Release
    from aotbuild.verify.release_checks import Finding

_HEADERS = ("file", "project", "size")


@command(
    "Check the wheels and source distributions of a release together.",
    argument("files", nargs="+", metavar="FILE", type=existing_place),
    JSON,
)
def release_check(output: Output, files: list[Path], as_json: bool) -> int | None:
    """Check all FILEs of a release: `aotbuild release-check dist/*`. A folder stands for its files.

    Wheels of one version must state the same metadata, and no two may be for the same platform.
    Source distributions hold no executables. Companions belong to their base. Every byte of each
    wheel is checked, as by `verify --no-run`.
    """
    from aotbuild.verify.release import read_release
    from aotbuild.verify.release_checks import check_release

    output.as_json = as_json
    files = [file for place in files for file in _files(place)]
    if not files:
        msg = "there are no files in this folder; build the release first"
        raise UsageError(msg)
    release = read_release(files)
    findings = check_release(release)
    problems = [finding for finding in findings if finding.fails]
    notes = [finding for finding in findings if not finding.fails]
    output.document.update(
        passed=not problems,
        files=[str(path) for path in files],
        problems=[finding.to_json() for finding in problems],
        notes=[finding.to_json() for finding in notes],
    )
    _print(output, release, problems, notes)
    return VERIFY if problems else None


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    # uv leaves a .gitignore there.
    return sorted(file for file in place.glob("[!.]*") if file.is_file())


def _print(output: Output, release: Release, problems: list[Finding], notes: list[Finding]) -> None:
    shown = _names(release)
    rows = [
        (printable(shown[each.path]), printable(_project(each.metadata.project)), _size(each.path))
        for each in release.published
    ]
    output.table(_HEADERS, rows)
    for finding in problems:
        output.text(f"\n{finding.check}: {printable(finding.problem)}")
        _lines(output, (shown[path] for path in finding.files), finding.reasons)
        if finding.remedy:
            output.text(f"  {finding.remedy}")
        names = ", ".join(shown[path] for path in finding.files)
        lines = (f"{finding.check}: {finding.problem}", names, *finding.reasons, finding.remedy)
        text = "\n".join(printable(line) for line in lines if line)
        output.annotations.append(Annotation("error", text))
    for finding in notes:
        names = ", ".join(shown[path] for path in finding.files)
        output.text(f"note: {printable(names)}: {printable(finding.problem)}")
    output.text()
    counted = plural(len(problems), "problem")
    output.text(f"{counted}: do not publish these files" if problems else "nothing is wrong")


def _names(release: Release) -> dict[Path, str]:
    """Return what each file is called: its path, if files of several folders have its name."""
    paths = [*(each.path for each in release.published), *release.others, *release.unreadable]
    counts = Counter(path.name for path in paths)
    return {path: path.name if counts[path.name] == 1 else str(path) for path in paths}


def _project(project: tuple[str, str]) -> str:
    return " ".join(project)


def _size(path: Path) -> str:
    return bytes_text(path.stat().st_size)


def _lines(output: Output, files: Iterable[str], reasons: Iterable[str]) -> None:
    for line in (*files, *(f"  {reason}" for reason in reasons)):
        output.text(f"  {printable(line)}")
