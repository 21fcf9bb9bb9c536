"""`aotbuild build --check-reproducible`: two builds without the store, and what differs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from aotbuild.build.differences import EXECUTABLE, Difference, differences
from aotbuild.build.pack import Package, build_package
from aotbuild.build.pool import most_jobs
from aotbuild.build.references import read_references
from aotbuild.build.unit_progress import tracked
from aotbuild.cli.exit_codes import NOT_REPRODUCIBLE
from aotbuild.cli.github import of_failures
from aotbuild.cli.output import Output, say
from aotbuild.errors import BuildError, UnitFailure
from aotbuild.format.files import read_regular
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, MOST_INDEX, Index
from aotbuild.format.temporary import temporary_folder
from aotbuild.report.words import plural, printable
from aotbuild.store.places import VARIABLE
from aotbuild.toolchains.environments import make_environments

if TYPE_CHECKING:
    from aotbuild.build.project import Project

# The digest of a lowered module, and what follows if it differs.
_TRACED = "provenance.stablehlo"
_TRACES_DIFFER = (
    "traces to another program in each build: it, or a module that it imports, reads more than "
    "arguments, as a clock, random numbers or the order of a set"
)


def check_reproducible(
    output: Output, project: Project, jobs: int | None, executor: str | None
) -> int | None:
    """Build a project twice, print what differs, and return NOT_REPRODUCIBLE if anything does."""
    read_references(project.plan.manifest, project.sources).refuse_missing()
    make_environments(project.plan.environment.toolchains, say)
    first = jobs or most_jobs(os.environ)
    numbers = (first, 1 if first > 1 else 2)
    output.document.update(reproducible=None, builds=[], differences=[], failures=[])
    with temporary_folder(what="reproducible-") as place:
        packages = []
        for number, name in zip(numbers, ("first", "a second time"), strict=True):
            # Another path, also of other length.
            temporary = place / f"temporary files, {name}"
            temporary.mkdir()
            with _environment({VARIABLE: "off", "TMPDIR": str(temporary)}):
                folder = place / name / FOLDER_NAME
                packages.append(_build(output, project, folder, number, executor))
        found = differences(*packages)
    output.document.update(
        reproducible=not found, differences=[asdict(difference) for difference in found]
    )
    _print(output, project, packages, numbers, found)
    return NOT_REPRODUCIBLE if found else None


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables of this process, which compilers inherit, for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _build(
    output: Output, project: Project, folder: Path, jobs: int, executor: str | None
) -> Package:
    say(f"building without the store, {plural(jobs, 'compiler')} at once")
    started = monotonic()
    with tracked(project.plan.units, say) as tracker:
        try:
            package = build_package(
                *(project.plan, project.sources, folder, tracker, jobs),
                executor=executor,
                fresh=True,
            )
        except BuildError as err:
            output.document["failures"] = [vars(failure) for failure in err.failures]
            raise
    index = folder / INDEX_NAME
    digest = Index.open(read_regular(index, MOST_INDEX), str(index)).digest
    seconds = monotonic() - started
    output.document["builds"].append({"jobs": jobs, "seconds": seconds, "digest": digest})
    return package


def _print(
    output: Output,
    project: Project,
    packages: list[Package],
    numbers: tuple[int, int],
    found: list[Difference],
) -> None:
    traced = _print_sources(output, project, found)
    for unit, group in groupby(found, lambda difference: difference.unit):
        lines = [printable(unit or "the folder")]
        # The source says it, for all of its units.
        hidden = (_TRACED, "provenance.trace.constants", "provenance.trace.operations")
        its = [each for each in group if each.part not in hidden]
        its.sort(key=lambda each: each.part == EXECUTABLE)
        lines += (f"  {printable(str(difference))}" for difference in its)
        for line in lines:
            output.text(line)
        if unit not in traced:
            output.annotations += of_failures(
                "error", [UnitFailure(unit, "reproducible", "\n".join(lines[1:]))], _file(project)
            )
    total = len(packages[0].records)
    if found:
        units = len({difference.unit for difference in found if difference.unit})
        output.text(f"not reproducible: {units} of {plural(total, 'unit')} differ")
        return
    digest = output.document["builds"][0]["digest"]
    jobs = " and with ".join(map(str, numbers))
    output.text(f"reproducible: {plural(total, 'unit')}, the same bytes with {jobs} at once")
    output.text(digest)


def _print_sources(output: Output, project: Project, found: list[Difference]) -> set[str]:
    """Print each function whose traces differ, once for all of its units; return those units."""
    units = {str(unit): unit for unit in project.plan.units}
    traced = [each.unit for each in found if each.part == _TRACED]
    functions: dict[str, list[str]] = {}
    for label in traced:
        name = units[label].name if label in units else label.partition("(")[0]
        functions.setdefault(name, []).append(label)
    for name, labels in functions.items():
        text = f"{project.plan.manifest.functions[name].call} {_TRACES_DIFFER}"
        output.text(printable(f"{name}: {text}"))
        failures = [UnitFailure(label, "reproducible", text) for label in labels]
        output.annotations += of_failures("error", failures, _file(project))
    return {*traced}


def _file(project: Project) -> Path:
    return Path(project.plan.manifest.file)
