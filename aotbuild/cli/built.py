"""What `aotbuild build` prints of a package: its document, its table, and whether it is up to date.

Apart from the command, because of what it imports.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from aotbuild.build.check import out_of_date
from aotbuild.build.pack import Package
from aotbuild.build.plan import after_feedback
from aotbuild.build.project import Project
from aotbuild.build.size import compressed_size, size_note
from aotbuild.build.unit_progress import UnitState, origins, summary
from aotbuild.cli.exit_codes import STALE
from aotbuild.cli.output import Output
from aotbuild.cli.project import plan_document, unit_document
from aotbuild.report.text import choices_of
from aotbuild.report.words import bytes_text, count_text, flops, printable

_HEADERS = ("function", "signature", "target", "size", "flops", "tuned")


def print_check(output: Output, project: Project, folder: Path) -> int | None:
    """Print whether a folder is what a build would write, and why not; return the exit code."""
    reasons = out_of_date(project.plan, project.sources, folder)
    output.document.update(folder=str(folder), up_to_date=not reasons, reasons=reasons)
    for reason in reasons:
        output.text(printable(reason))
    state = "is out of date: build it again" if reasons else "is up to date"
    output.text(f"{folder} {state}")
    return STALE if reasons else None


def unit_state(state: UnitState) -> dict[str, Any]:
    """Return a unit and its state; `fill` completes it."""
    known = {"state": state.state, "seconds": state.seconds, "size": state.size}
    known["stored"] = state.stored
    return {**unit_document(state.unit), **known, **dict.fromkeys(("kind", "sha256", "analysis"))}


def document(project: Project, folder: Path) -> dict[str, Any]:
    """Return the document before anything is compiled; `fill` completes it."""
    units = [unit_state(UnitState(unit)) for unit in project.plan.units]
    return {
        **plan_document(project),
        "folder": str(folder),
        "size": None,
        "stages": None,
        "store": None,
        "origins": None,
        "units": units,
        "failures": [],
        "notes": [],
    }


def fill(document: dict[str, Any], package: Package) -> None:
    """Complete the document of a build, with what it made."""
    document["size"], document["notes"] = package.size, _notes(package)
    document["store"] = asdict(package.store)
    document["origins"] = asdict(package.origins)
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


def print_package(output: Output, package: Package, seconds: float) -> None:
    """Print what a build made, in how many seconds."""
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
    for line in (*origins(package), summary(package, seconds)):
        output.text(line)
    output.text(f"written to {package.folder}")
    if package.stages:
        output.text(f"kept stages are in {package.stages}")
    for note in _notes(package):
        output.text(f"note: {note}")


def _notes(package: Package) -> list[str]:
    size = compressed_size(package.files())
    note = size_note(size, "compressed, what was built", package.size_remedy)
    return [*package.notes, *([note] if note else [])]
