"""What GitHub Actions gets from a command: annotations at lines of files, and a job summary."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aotbuild.cli.markdown import Markdown
from aotbuild.errors import BuildError, ManifestError, PlanError, UnitFailure

# The commands that have a summary; what the others make are files, or nothing for CI.
SUMMARIZED = frozenset({"build", "verify", "diff"})
# GitHub shows no more annotations of a level for one step.
_MOST = 10
# A place in an error of the user's code, as `at /project/model.py:8 in logits`.
_PLACE = re.compile(r"\bat (.+?):(\d+) in ")
# What an error of the manifest's names begins with, as `functions.score.call: proj.model:scoer: `.
_NAMED = re.compile(r"functions\.\S+: ([\w.]+:[\w.]+): ")


@dataclass(frozen=True)
class Annotation:
    """A message for people, at a line of a file if one is known. The level is GitHub's."""

    level: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0


def tell(
    title: str,
    annotations: Sequence[Annotation],
    summary: Markdown | None,
    say: Callable[[str], object],
    environment: Mapping[str, str],
) -> None:
    """Let GitHub show annotations beside the code, and a summary on the page of the job.

    Elsewhere, do nothing.
    """
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    for line in commands(annotations, title, environment):
        say(line)
    if summary and (place := environment.get("GITHUB_STEP_SUMMARY")):
        try:
            with Path(place).open("a", encoding="utf-8") as file:
                file.write(f"{summary.render(title)}\n")
        except OSError as err:
            say(f"{place}: {err.strerror}; the job has no summary of this")


def of_error(error: BaseException, message: str, manifest: Path | None) -> list[Annotation]:
    """Return the annotations of an error that ended a command; `message` is its text."""
    if isinstance(error, ManifestError | PlanError) and error.problems:
        return [
            Annotation(
                "error", f"{p.path}: {p.message}".removeprefix(": "), p.file, p.line, p.column
            )
            for p in error.problems
        ]
    if isinstance(error, BuildError) and error.failures:
        return of_failures("error", error.failures, manifest)
    return [Annotation("error", message, str(manifest or ""))]


def of_failures(
    level: str, failures: Sequence[UnitFailure], manifest: Path | None
) -> list[Annotation]:
    """Return the annotations of units that failed, at lines of the user's code or the manifest.

    Units that failed at one line have one, whatever led there: most likely it is one mistake.
    """
    causes: dict[object, list[UnitFailure]] = {}
    for failure in failures:
        cause = _place_in(failure.message) or failure.message
        causes.setdefault((failure.stage, cause), []).append(failure)
    return [_of_cause(level, list(group), manifest) for group in causes.values()]


def _of_cause(level: str, failures: Sequence[UnitFailure], manifest: Path | None) -> Annotation:
    first = failures[0]
    more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
    text = f"{first.unit}{more}: {first.stage}: {first.message}"
    if place := _place_in(first.message):
        return Annotation(level, text, *place)
    if manifest is None:
        return Annotation(level, text)
    from aotbuild.build.references import position

    function = first.unit.partition("(")[0]
    named = _NAMED.match(first.message)
    mark = position(manifest, function, named[1] if named else "")
    return Annotation(level, text, str(manifest), *((mark.line, mark.column) if mark else ()))


def _place_in(message: str) -> tuple[str, int] | None:
    """Return the innermost line of the user's code that a message names."""
    for file, line in reversed(_PLACE.findall(message)):
        path = file.rpartition(" at ")[2]
        if Path(path).is_file():
            return path, int(line)
    return None


def commands(
    annotations: Sequence[Annotation], title: str, environment: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines that make GitHub show annotations, at most as many as it shows."""
    for level in ("error", "warning"):
        found = [each for each in annotations if each.level == level]
        if len(found) > _MOST:
            rest = Annotation(level, f"{len(found) - _MOST + 1} more: see the log of this step")
            found = [*found[: _MOST - 1], rest]
        for each in found:
            yield _command(each, title, environment)


def _command(found: Annotation, title: str, environment: Mapping[str, str]) -> str:
    facts = {"title": title}
    if found.file and (place := _in_repository(found.file, environment)):
        facts["file"] = place
        facts |= {"line": str(found.line)} if found.line else {}
        facts |= {"col": str(found.column)} if found.column else {}
    listed = ",".join(f"{name}={_escaped(value, more=':,')}" for name, value in facts.items())
    return f"::{found.level} {listed}::{_escaped(found.message)}"


def _in_repository(file: str, environment: Mapping[str, str]) -> str:
    """Return a path as GitHub knows it: relative to the checkout; "" if it is not in there."""
    workspace = environment.get("GITHUB_WORKSPACE")
    if not workspace:
        return file
    root, path = Path(workspace), Path(os.path.abspath(file))  # noqa: PTH100 - links stay
    if not path.is_relative_to(root):
        path = _unpacked_from(path, root) or path
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else ""


def _unpacked_from(path: Path, checkout: Path) -> Path | None:
    """Return the file of a checkout that one of an unpacked source distribution comes from."""
    project = next((p for p in path.parents if (p / "PKG-INFO").is_file()), None)
    if project is None:
        return None
    for folder in (checkout, *_projects_below(checkout)):
        file = folder / path.relative_to(project)
        with suppress(OSError):
            if file.read_bytes() == path.read_bytes():
                return file
    return None


def _projects_below(checkout: Path) -> Iterator[Path]:
    """Yield the folders of projects in a checkout that are not deep in it."""
    for pattern in ("*", "*/*", "*/*/*"):
        for file in sorted(checkout.glob(f"{pattern}/pyproject.toml")):
            yield file.parent


def _escaped(text: str, more: str = "") -> str:
    for each in f"%\r\n{more}":
        text = text.replace(each, f"%{ord(each):02X}")
    return text
