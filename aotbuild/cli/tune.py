"""`aotbuild tune`: let XLA choose on this machine's GPU, for builds on machines without one."""

from __future__ import annotations

import re
from pathlib import Path

from aotbuild.cli.command import argument, command, new_file
from aotbuild.cli.destination import Destination
from aotbuild.cli.output import Output
from aotbuild.cli.project import PROJECT
from aotbuild.report.words import plural, printable
from aotbuild.spec.temporary import temporary_folder

# What tells its file from one that XLA or somebody else wrote.
_BEGINS = re.compile(b"# device_kind: ")


@command(
    "Tune for this machine's GPU; builds elsewhere use the result.",
    PROJECT,
    argument(
        "--out",
        type=new_file,
        required=True,
        metavar="FILE",
        help="The file to write, which autotune: of a cuda target names.",
    ),
)
def tune(output: Output, manifest: Path, root: Path | None, as_json: bool, out: Path) -> None:
    """Compile the functions of MANIFEST on this machine's GPU, and write what ran fastest.

    Needs the GPU, its driver and jax[cuda13], of the version that builds. The file is for that jax
    and for GPUs with exactly these facts: aotbuild doctor --describe-gpu writes them down.
    """
    from aotbuild.build.sources import find_sources
    from aotbuild.build.tune import plan_tuning
    from aotbuild.build.tune import tune as run_tuning
    from aotbuild.cli.progress import tracked
    from aotbuild.manifest import load_manifest
    from aotbuild.platforms.building import tuner
    from aotbuild.toolchains.toolchain import probe

    output.as_json = as_json
    destination = Destination(out, _BEGINS, "result of aotbuild tune")
    loaded = load_manifest(manifest)
    by = tuner()
    local = by.devices()
    sources = find_sources((root or manifest.parent).resolve(), loaded.package)
    with temporary_folder(what="tune-") as folder:
        tuning = plan_tuning(loaded, probe(), by, local, folder)
        with tracked(tuning.plan.units) as tracker:
            text, entries = run_tuning(tuning, sources, tracker)
    destination.write(text.encode())
    notes = list(tuning.notes)
    output.document.update(file=str(out), device_kind=local.kind, results=entries, notes=notes)
    output.text(printable(f"{plural(entries, 'result')} of {local.kind} written to {out}"))
    for note in notes:
        output.text(f"note: {note}")
