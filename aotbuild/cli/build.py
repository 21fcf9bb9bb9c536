"""`aotbuild build`: compile everything that a manifest asks for into one `_aot` folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import UsageError, argument, command, flag, new_folder, whole_number
from aotbuild.cli.exit_codes import PARTIAL, STALE
from aotbuild.cli.output import Output, say
from aotbuild.cli.project import PROJECT, Project, open_project, plan_document, unit_document
from aotbuild.errors import BuildError
from aotbuild.report.words import bytes_text, count_text, flops, printable

if TYPE_CHECKING:
    from aotbuild.build.pack import Package
    from aotbuild.cli.progress import UnitState

_HEADERS = ("function", "signature", "target", "size", "flops")


@command(
    "Compile it all into one _aot folder.",
    PROJECT,
    argument(
        "--out",
        type=new_folder,
        metavar="DIR",
        help="The _aot folder to write. Default: build/aot/<package>/_aot.",
    ),
    flag(
        "--in-place",
        help="Write _aot into the package's source folder, where an editable install finds it.",
    ),
    argument(
        "--jobs",
        type=whole_number(1),
        metavar="N",
        help="How many compilers may work side by side. Default: AOTBUILD_JOBS, or one for each "
        "CPU.",
    ),
    argument(
        "--memory",
        choices=["refuse", "warn"],
        help="What a unit that needs more memory than its device has does. Default: the "
        "manifest's.",
    ),
    flag(
        "--keep-going",
        help="Leave out the units that fail, and exit with 10. Without it, nothing is written "
        "then.",
    ),
    flag(
        "--check",
        help="Build nothing. Say whether the folder is what a build would write, and exit with 11 "
        "if it is not.",
    ),
)
def build(
    output: Output,
    manifest: Path,
    root: Path | None,
    as_json: bool,
    out: Path | None,
    in_place: bool,
    jobs: int | None,
    memory: str | None,
    keep_going: bool,
    check: bool,
) -> int | None:
    """Compile everything that MANIFEST asks for, and write it as a whole or not at all."""
    output.as_json = as_json
    if out is not None and in_place:
        msg = "--out and --in-place exclude each other"
        raise UsageError(msg)
    project = _with_memory(open_project(manifest, root), memory)
    folder = _folder(project, out, in_place)
    if check:
        return _print_check(output, project, folder)
    _check_replaceable(folder)
    output.document.update(_document(project, folder))
    started = monotonic()
    package = _compile(output, project, folder, jobs, keep_going=keep_going)
    _fill(output.document, package)
    _print(output, package, monotonic() - started)
    if package.left_out:
        say(package.left_out)
        return PARTIAL
    return None


def _print_check(output: Output, project: Project, folder: Path) -> int | None:
    from aotbuild.build.check import out_of_date

    reasons = out_of_date(project.plan, project.sources, folder)
    output.document.update(folder=str(folder), up_to_date=not reasons, reasons=reasons)
    for reason in reasons:
        output.text(printable(reason))
    state = "is out of date: build it again" if reasons else "is up to date"
    output.text(f"{folder} {state}")
    return STALE if reasons else None


def _with_memory(project: Project, memory: str | None) -> Project:
    """Return the project with `memory:` of its manifest replaced, if `memory` is given."""
    plan = project.plan
    manifest = plan.manifest.model_copy(update={"memory": memory or plan.manifest.memory})
    return replace(project, plan=replace(plan, manifest=manifest))


def _folder(project: Project, out: Path | None, in_place: bool) -> Path:
    if in_place:
        return project.sources.import_root / project.sources.artifacts
    return out or Path("build", "aot", project.sources.artifacts)


def _check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but the results of an earlier build."""
    from aotbuild.spec.index import INDEX_NAME
    from aotbuild.spec.signing import SEALS_NAME

    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if names and (INDEX_NAME not in names or names - {INDEX_NAME, SEALS_NAME, "blobs"}):
        msg = f"{folder} would be replaced, but it is not an _aot folder; name another, or empty it"
        raise UsageError(msg, "--out")
    if not folder.name:
        msg = f"{folder} is the current folder, and cannot be replaced; name another"
        raise UsageError(msg, "--out")


def _compile(
    output: Output, project: Project, folder: Path, jobs: int | None, *, keep_going: bool
) -> Package:
    from aotbuild.build.pack import build_package
    from aotbuild.cli.progress import tracked
    from aotbuild.toolchains.environments import make_environments

    make_environments(project.plan.environment.toolchains, say)
    with tracked(project.plan.units) as tracker:
        try:
            return build_package(
                project.plan, project.sources, folder, tracker, jobs, keep_going=keep_going
            )
        except BuildError as err:
            output.document["failures"] = [vars(failure) for failure in err.failures]
            raise
        finally:
            output.document["units"] = [_unit_document(state) for state in tracker.states]


def _unit_document(state: UnitState) -> dict[str, Any]:
    """Return a unit and its state; `_fill` completes it."""
    known = {"state": state.state, "seconds": state.seconds, "size": state.size}
    return {**unit_document(state.unit), **known, **dict.fromkeys(("kind", "sha256", "analysis"))}


def _document(project: Project, folder: Path) -> dict[str, Any]:
    """Return the document before anything is compiled; `_fill` completes it."""
    from aotbuild.cli.progress import UnitState

    units = [_unit_document(UnitState(unit)) for unit in project.plan.units]
    return {
        **plan_document(project),
        "folder": str(folder),
        "size": None,
        "stages": None,
        "units": units,
        "failures": [],
        "notes": [],
    }


def _fill(document: dict[str, Any], package: Package) -> None:
    document["size"], document["notes"] = package.size, _notes(package)
    document["stages"] = str(package.stages) if package.stages else None
    document["failures"] = [vars(failure) for failure in package.failures]
    records = dict(zip(map(str, package.plan.units), package.records, strict=True))
    known = {*records, *(failure.unit for failure in package.failures)}
    # Without units of `feedback:` that have the signature of another one.
    document["units"] = [unit for unit in document["units"] if unit["label"] in known]
    for unit in document["units"]:
        if record := records.get(unit["label"]):
            unit |= {"kind": record.blob.kind, "sha256": record.blob.sha256}
            unit |= {"analysis": record.analysis}
        else:
            # Also if it compiled: two units may have one signature.
            unit["state"] = "failed"


def _print(output: Output, package: Package, seconds: float) -> None:
    from aotbuild.build.plan import after_feedback
    from aotbuild.cli.progress import summary

    pairs = zip(package.plan.units, package.records, strict=True)
    rows = [
        (
            unit.name,
            f"{unit.values_label}{after_feedback(unit.fed_back)}".strip() or "-",
            f"{unit.target}{unit.suffix}",
            bytes_text(record.blob.size),
            count_text(flops(record)),
        )
        for unit, record in pairs
    ]
    output.table(_HEADERS, rows)
    output.text()
    output.text(summary(package, seconds))
    output.text(f"written to {package.folder}")
    if package.stages:
        output.text(f"kept stages are in {package.stages}")
    for note in _notes(package):
        output.text(f"note: {note}")


def _notes(package: Package) -> list[str]:
    from aotbuild.build.pack import compressed_size, size_note

    size = compressed_size(package.files())
    note = size_note(size, "compressed, what was built", package.size_remedy)
    return [*package.notes, *([note] if note else [])]
