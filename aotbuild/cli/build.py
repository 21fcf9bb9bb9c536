"""`aotbuild build`: compile everything that a manifest asks for into one `_aot` folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import (
    UsageError,
    argument,
    command,
    flag,
    new_file,
    new_folder,
    whole_number,
)
from aotbuild.cli.output import Output, say
from aotbuild.cli.project import PROJECT, check_replaceable, plan_document, unit_document
from aotbuild.errors import BuildError
from aotbuild.format.words import bytes_text, count_text

if TYPE_CHECKING:
    from aotbuild.build.pack import Package
    from aotbuild.build.progress import UnitState

_HEADERS = ("function", "signature", "target", "size", "flops", "tuned")


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
        "--executor",
        metavar="WHERE",
        help="Where they work: local, or dask://HOST:PORT. Default: AOTBUILD_EXECUTOR, or local.",
    ),
    flag(
        "--fresh",
        help="Trace every function, also if nothing changed since an earlier build. The store "
        "still has their executables.",
    ),
    argument(
        "--timings",
        type=new_file,
        metavar="FILE",
        help="Also write an HTML page that shows when each step of each unit began and ended.",
    ),
)
def build(
    output: Output,
    manifest: Path,
    root: Path | None,
    out: Path | None,
    in_place: bool,
    jobs: int | None,
    executor: str | None,
    fresh: bool,
    timings: Path | None,
) -> None:
    """Compile everything that MANIFEST asks for, and write it as a whole or not at all."""
    from aotbuild.build.pack import build_project
    from aotbuild.build.progress import Tracker
    from aotbuild.build.project import open_project
    from aotbuild.build.run_units import BuildOptions

    if out is not None and in_place:
        msg = "--out and --in-place exclude each other"
        raise UsageError(msg)
    project = open_project(manifest, root, say)
    home = project.sources.import_root / project.sources.artifacts
    folder = home if in_place else out or Path("build", "aot", project.sources.artifacts)
    in_place = folder.resolve() == home.resolve()  # also where --out names it
    check_replaceable(folder)
    output.document.update(plan_document(project), folder=str(folder))
    options = BuildOptions(jobs, executor, fresh)
    tracker = Tracker(project.plan.units, say)
    try:
        package = build_project(project, folder, say, options, tracker, in_place=in_place)
    except BuildError as err:
        output.document["failures"] = [vars(failure) for failure in err.failures]
        raise
    finally:
        output.document["units"] = [_unit_state(state) for state in tracker.states]
        if timings:
            _write_timings(output, timings)
    _fill(output.document, package)
    _print(output, package)


def _write_timings(output: Output, page: Path) -> None:
    from aotbuild.format.files import write_where_told
    from aotbuild.report.timings import timings_html

    text = timings_html(output.document["package"], output.document["units"])
    write_where_told(page, text.encode("utf-8"))
    output.text(f"timings written to {page}")


def _unit_state(state: UnitState) -> dict[str, Any]:
    return {
        **unit_document(state.unit),
        "state": state.state,
        "seconds": state.seconds,
        "size": state.size,
        "stored": state.stored,
        "steps": [asdict(step) for step in state.steps],
    }


def _fill(document: dict[str, Any], package: Package) -> None:
    """Complete the document of a build with what it made."""
    document.update(
        size=package.size,
        notes=list(package.notes),
        store=asdict(package.store),
        origins={
            "stored": package.stored,
            "compiled": len(package.records) - package.stored,
            "recalled": package.recalled,
        },
    )
    records = dict(zip(map(str, package.plan.units), package.records, strict=True))
    # Without units of `feedback:` that have the signature of another one.
    document["units"] = [unit for unit in document["units"] if unit["label"] in records]
    for unit in document["units"]:
        record = records[unit["label"]]
        unit.update(kind=record.blob.kind, sha256=record.blob.sha256, analysis=record.analysis)


def _print(output: Output, package: Package) -> None:
    from aotbuild.build.plan import after_feedback
    from aotbuild.report.text import choices_of
    from aotbuild.report.words import flops

    pairs = zip(package.plan.units, package.records, strict=True)
    rows = [
        (
            unit.name,
            f"{unit.values_label}{after_feedback(unit.fed_back)}".strip() or "-",
            f"{unit.target}{unit.suffix}",
            bytes_text(record.blob.size),
            count_text(flops(record)),
            choices_of(record)[0],
        )
        for unit, record in pairs
    ]
    # Only compilers for devices that may be absent choose without measuring.
    columns = 6 if any(row[-1] != "-" for row in rows) else 5
    output.table(_HEADERS[:columns], [row[:columns] for row in rows])
    output.text()
    for line in package.summary:
        output.text(line)
    output.text(f"written to {package.folder}")
    for note in package.notes:
        output.text(f"note: {note}")
