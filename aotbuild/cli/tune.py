"""`aotbuild tune`: let XLA choose on this machine's GPU, for builds on machines without one."""

from __future__ import annotations

from pathlib import Path

from aotbuild.cli.command import argument, command, new_file
from aotbuild.cli.exit_codes import BUILD
from aotbuild.cli.output import Output, say
from aotbuild.cli.project import PROJECT
from aotbuild.errors import listing
from aotbuild.format.files import write_where_told
from aotbuild.format.temporary import temporary_folder
from aotbuild.report.words import plural, printable


@command(
    "Tune for this machine's GPU; builds elsewhere use the result.",
    PROJECT,
    argument(
        "--out",
        type=new_file,
        required=True,
        metavar="FILE",
        help="The file for the results, which tuning: of a cuda target names. Results that are "
        "there already, of other GPUs and versions, are kept.",
    ),
)
def tune(output: Output, manifest: Path, root: Path | None, out: Path) -> int | None:
    """Compile the functions of MANIFEST on this machine's GPU, and write what ran fastest.

    Needs the GPU, its driver and a jax that uses it, of the version that builds. Each function is
    measured in a process of its own; if one fails, the results of the others are written, and the
    exit code is 4.
    """
    from aotbuild.build.progress import Tracker, reminders
    from aotbuild.build.project import find_sources
    from aotbuild.build.tune import plan_tuning
    from aotbuild.build.tune import tune as run_tuning
    from aotbuild.manifest import load_manifest
    from aotbuild.platforms.building import tuner
    from aotbuild.toolchains.toolchain import probe

    known = out.read_text(encoding="utf-8") if out.is_file() and out.stat().st_size else None
    loaded = load_manifest(manifest)
    by = tuner()
    local = by.devices()
    sources = find_sources((root or manifest.parent).resolve(), loaded.package)
    with temporary_folder(what="tune-") as folder:
        tuning = plan_tuning(loaded, probe(), by, local, folder)
        tracker = Tracker(tuning.plan.units, say)
        with reminders(tracker, say):
            done = run_tuning(tuning, sources, tracker, known)
    write_where_told(out, str(done.results).encode())
    measured = [
        {"unit": unit, "measured": count, "known": before} for unit, count, before in done.counts
    ]
    notes = list(tuning.notes)
    output.document.update(
        file=str(out),
        device_kind=local.kind,
        units=measured,
        failures=[vars(failure) for failure in done.failures],
        notes=notes,
    )
    for unit, count, before in done.counts:
        output.text(printable(f"{unit}: {plural(count, 'instruction')} measured, {before} known"))
    for note in notes:
        output.text(f"note: {note}")
    output.text(printable(f"results of {local.kind} written to {out}"))
    if not done.failures:
        return None
    say(f"{len(done.failures)} of {len(done.counts)} failed:\n{listing(done.failures)}")
    return BUILD
