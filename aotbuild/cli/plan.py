"""`aotbuild plan`: what would be compiled, without compiling anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import command, flag
from aotbuild.cli.exit_codes import BUILD
from aotbuild.cli.output import Output, say
from aotbuild.cli.project import PROJECT, plan_document
from aotbuild.report.words import bytes_text, plural

if TYPE_CHECKING:
    from aotbuild.build.explain import Explained, Fork, FunctionReport
    from aotbuild.build.plan import BuildUnit
    from aotbuild.build.project import Project
    from aotbuild.format.record import Record
    from aotbuild.toolchains.toolchain import Toolchain

# How many signatures are named; the JSON document names all.
_MOST_LABELS = 6


def explain_project(output: Output, project: Project) -> bool:
    """Trace everything and report it; return whether a build would accept every trace."""
    from aotbuild.build.explain import explain
    from aotbuild.toolchains.environments import make_environments

    make_environments(project.plan.environment.toolchains, say)
    reports = explain(project.plan, project.sources, _say)
    output.document["functions"] = [_document(report) for report in reports]
    failures = [item.failure for report in reports for item in report.signatures if item.failure]
    output.document["failures"] = [vars(failure) for failure in failures]
    for report in reports:
        output.text()
        for line in _lines(report):
            output.text(line)
    return not failures


def _say(result: Explained) -> None:
    say(f"{'refused' if result.failure else 'traced'}: {result.label}")


def _document(report: FunctionReport) -> dict[str, Any]:
    return {
        "function": report.name,
        "programs": [
            {
                "signatures": list(program.labels),
                "differs_at": None if program.fork is None else vars(program.fork),
            }
            for program in report.programs
        ],
        "decided_by": list(report.decided_by),
        "signatures": [
            {
                "label": item.label,
                "symbolic": item.symbolic,
                "traced": item.failure is None,
                "notes": list(item.notes),
            }
            for item in report.signatures
        ],
    }


def _lines(report: FunctionReport) -> list[str]:
    lines = [_headline(report)]
    if len(report.programs) > 1:
        for number, program in enumerate(report.programs, 1):
            lines += [f"  program {number}: {_listing(program.labels)}", *_fork(program.fork)]
    lines += [f"  note: {note}" for note in _notes(report)]
    failed: dict[str, list[str]] = {}
    for item in report.signatures:
        if item.failure:
            failed.setdefault(item.failure.message, []).append(item.label)
    for message, labels in failed.items():
        lines.append(f"  refused: {_listing(labels)}")
        lines += [f"    {line}" for line in message.splitlines()]
    return lines


def _notes(report: FunctionReport) -> list[str]:
    """Return one note for each place: its values depend on what the worker traced before."""
    found: dict[str, str] = {}
    for item in report.signatures:
        for note in item.notes:
            found.setdefault(note.partition(" changed ")[0], note)
    return list(found.values())


def _headline(report: FunctionReport) -> str:
    number = sum(len(program.labels) for program in report.programs)
    if not report.programs:
        return f"{report.name}: no program"
    if len(report.programs) == 1:
        whose = f"all {number} signatures" if number > 1 else "its signature"
        return f"{report.name}: one program for {whose}"
    programs = f"{len(report.programs)} programs for {plural(number, 'signature')}"
    decided = " or ".join(report.decided_by) or "no single dim or static argument"
    return f"{report.name}: {programs}, decided by {decided}"


def _fork(fork: Fork | None) -> list[str]:
    from aotbuild.build.sources import place_text

    if fork is None:
        return []
    lines = [f"    differs from program 1 first: {fork.first}, here {fork.other}"]
    lines += [f"    {line}" for line in place_text(fork.line).splitlines()]
    return [*lines, *([f"    {fork.remark}"] if fork.remark else [])]


def _listing(labels: Sequence[str]) -> str:
    missing = len(labels) - _MOST_LABELS
    more = f" and {missing} more" if missing > 0 else ""
    return ", ".join(labels[:_MOST_LABELS]) + more


@dataclass(frozen=True)
class KnownSize:
    """The size of a plan's executables in the `_aot` folder of an earlier build.

    `size` is in bytes, compressed if that could decide on the size note; equal blobs count once.
    """

    folder: Path
    size: int
    units: int
    total: int
    note: str | None

    def __str__(self) -> str:
        return f"{bytes_text(self.size)} for {self.units} of {self.total} units in {self.folder}"

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "folder": str(self.folder),
            "bytes": self.size,
            "units": self.units,
            "warning": self.note,
        }


def known_size(project: Project) -> KnownSize | None:
    """Return the size that an earlier build had; None if there is none that can be read."""
    artifacts = project.sources.artifacts
    places = (project.sources.import_root / artifacts, Path("build", "aot", artifacts))
    found = (_of_folder(place, project.plan.units) for place in places)
    return max((known for known in found if known), key=lambda known: known.units, default=None)


def _of_folder(folder: Path, units: tuple[BuildUnit, ...]) -> KnownSize | None:
    from aotbuild.build.size import compressed_size, size_note
    from aotbuild.errors import AotbuildError

    try:
        records = _records(folder)
    except (AotbuildError, OSError):
        return None  # an unreadable earlier build tells nothing; the next build replaces it
    wanted = {(u.signature_label, str(u.target), u.toolchain.jaxlib) for u in units}
    keys = {id(record): _keys(record, units) for record in records}
    mine = [record for record in records if wanted & keys[id(record)]]
    made = len(wanted & {key for record in mine for key in keys[id(record)]})
    files = {folder / blob.path for record in mine for blob in record.blobs()}
    size = compressed_size(file for file in sorted(files) if file.is_file())
    what = f"what {made} of {len(units)} units made in an earlier build"
    return KnownSize(folder, size, made, len(units), size_note(size, what)) if mine else None


def _records(folder: Path) -> list[Record]:
    from aotbuild.runtime.source import DirectorySource, open_index

    index = open_index(DirectorySource(folder))
    return [record for f in index.functions() for record in index.records(f.name)]


def _keys(record: Record, units: tuple[BuildUnit, ...]) -> set[tuple[str, str, str]]:
    """Return the names of the units that could have made this record.

    A portable record fits every jaxlib.
    """
    from aotbuild.build.plan import after_feedback

    jaxlib = record.requires.jaxlib
    jaxlibs = {jaxlib} if jaxlib else {unit.toolchain.jaxlib for unit in units}
    label = str(record.provenance.get("label", "")).partition(after_feedback(1))[0]
    return {(label, str(record.target), version) for version in jaxlibs}


_HEADERS = ("function", "signature", "target", "devices")


@command(
    "Print what would be compiled.",
    PROJECT,
    flag("--explain", help="Also trace every signature, and print which of them are one program."),
)
def plan(
    output: Output, manifest: Path, root: Path | None, as_json: bool, explain: bool
) -> int | None:
    """Print every compilation that MANIFEST asks for. Compiles and imports nothing.

    With --explain, your code is imported and traced, in processes of its own as for a build.
    """
    from aotbuild.build.project import open_project
    from aotbuild.build.references import read_references

    output.as_json = as_json
    project = open_project(manifest, root, say, run_code=False)
    output.document.update(plan_document(project))
    units = project.plan.units
    output.table(
        _HEADERS,
        [(u.name, u.values_label or "-", f"{u.target}{u.suffix}", str(u.devices)) for u in units],
    )
    output.text()
    output.text(summary(project))
    for name, line in detail_lines(project):
        output.text(f"{name + ':':<10} {line}")
    for line in pad_lines(project):
        output.text(f"pad:       {line}")
    for line in feedback_lines(project):
        output.text(f"feedback:  {line}")
    size = known_size(project)
    output.document["known_size"] = size.to_json() if size else None
    output.text(f"size:      {size or 'not known before it is compiled'}")
    if size and size.note:
        output.text(f"warning:   {size.note}")
    references = read_references(project.plan.manifest, project.sources)
    notes = [*default_notes(project), *startup_notes(project), *references.doubts]
    output.document["notes"] = notes
    for note in notes:
        output.text(f"note:      {note}")
    # With --explain, the imports tell.
    if not explain:
        references.refuse_missing()
    return BUILD if explain and not explain_project(output, project) else None


def detail_lines(project: Project) -> list[tuple[str, str]]:
    """Return what targets say beside their names: an option, its value and their names."""
    from aotbuild.platforms.building import description

    found: dict[tuple[str, Any], list[str]] = {}
    for unit in project.plan.units:
        for detail in description(unit.target.platform).details(unit.hardware).items():
            found.setdefault(detail, []).append(str(unit.target))
    return [
        (name, f"{value} for {', '.join(dict.fromkeys(targets))}")
        for (name, value), targets in found.items()
    ]


def pad_lines(project: Project) -> list[str]:
    """Return how the calls of each function are padded, as `score: batch with 0.0`."""
    lines = []
    for name, function in {unit.name: unit.function for unit in project.plan.units}.items():
        pads = function.pad.items()
        dims = (f"{dim} with {pad.value}{' (safe)' if pad.safe else ''}" for dim, pad in pads)
        if pads:
            lines.append(f"{name}: {', '.join(dims)}")
    return lines


def feedback_lines(project: Project) -> list[str]:
    """Return what is passed from call to call, as `tell: state; other avals are compiled, too`."""
    functions = {unit.name: unit.function for unit in project.plan.units}
    return [
        f"{name}: {', '.join(function.feedback)}; if the result has other avals, one more unit each"
        for name, function in functions.items()
        if function.feedback
    ]


def default_notes(project: Project) -> list[str]:
    """Return a note for each choice that the manifest leaves to the machine of the build."""
    plan = project.plan
    requests = plan.manifest.targets
    notes = [n for r in requests for n in r.description.notes(r, plan.environment)]
    if not plan.manifest.toolchains:
        (toolchain,) = plan.environment.toolchains
        notes.append(
            f"toolchains: none is named, so the jax that is installed compiles, {toolchain.jax} "
            "here; name one to get the same in every build"
        )
    return list(dict.fromkeys(notes))


def startup_notes(project: Project) -> list[str]:
    """Return a note for each case in which `startup:` has no effect."""
    from aotbuild.platforms.building import description

    modes = ((unit.function.startup, unit.target.platform) for unit in project.plan.units)
    return [
        f"startup: {mode} changes executables for CPUs only; those for {platform} stay the same"
        for mode, platform in dict.fromkeys(modes)
        if mode != "steady" and description(platform).startup is None
    ]


def _toolchains(project: Project) -> str:
    toolchains = project.plan.environment.toolchains
    return "\n".join(f"toolchain: {toolchain}{_origin(toolchain)}" for toolchain in toolchains)


def _origin(toolchain: Toolchain) -> str:
    """Return where an environment other than the running one comes from."""
    if toolchain.recipe is None:
        return ""
    file = toolchain.recipe.file
    return f" (made by uv{f' from {file.name}' if file else ''})"


def summary(project: Project) -> str:
    """Return the plan in a few lines: units, functions, toolchains, sources."""
    units = project.plan.units
    functions = len({unit.name for unit in units})
    return (
        f"{plural(len(units), 'unit')} of {plural(functions, 'function')} "
        f"for {project.plan.manifest.package}/_aot\n"
        f"{_toolchains(project)}\n"
        f"sources:   {project.sources.import_root}"
    )
