"""`aotbuild split`: a slim base wheel, and a companion wheel for each family of targets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import (
    JSON,
    UsageError,
    argument,
    command,
    existing_file,
    flag,
    new_folder,
)
from aotbuild.cli.output import Output
from aotbuild.format.target import HOST, PORTABLE
from aotbuild.report.words import bytes_text, printable

if TYPE_CHECKING:
    from aotbuild.wheels.draft import Written


@command(
    "Take a wheel apart: a base, and companions by family.",
    argument("wheel", metavar="WHEEL", type=existing_file),
    argument(
        "--out",
        type=new_folder,
        required=True,
        metavar="DIR",
        help="The folder for the new wheels. Nothing in it is replaced.",
    ),
    argument(
        "--keep",
        default=f"{HOST},{PORTABLE}",
        metavar="FAMILIES",
        help="What stays in the base: any of cpu, cuda, rocm, tpu, portable; default: "
        f"{HOST},{PORTABLE}.",
    ),
    flag(
        "--portable",
        help="Also write a wheel for any platform, with the portable forms and the same metadata.",
    ),
    flag(
        "--weights",
        help="Write the hoisted constants into a wheel of their own, and all else into the base.",
    ),
    argument(
        "--weights-versions",
        metavar="SPEC",
        help="The versions of the weights that the base takes, as '>=1.0,<2'; default: its own.",
    ),
    flag(
        "--variants",
        help="Write whole wheels with the metadata of PEP 825 (a draft), not companions.",
    ),
    JSON,
)
def split(
    output: Output,
    wheel: Path,
    out: Path,
    keep: str,
    portable: bool,
    weights: bool,
    weights_versions: str | None,
    variants: bool,
    as_json: bool,
) -> None:
    """Split WHEEL: its code and what --keep names become the base, the rest one companion wheel for
    each family of targets.

    The base has an extra for each: `pip install mypkg[cuda]`. WHEEL is checked first and stays as
    it is.
    """
    from aotbuild.wheels.split import FAMILIES

    output.as_json = as_json
    kept = [name.strip() for name in keep.split(",") if name.strip()]
    unknown = [name for name in kept if name not in FAMILIES]
    if unknown:
        msg = f"{unknown[0]!r} is no family of targets; expected some of {', '.join(FAMILIES)}"
        raise UsageError(msg, "--keep")
    if variants and portable:
        msg = "--portable and --variants exclude each other"
        raise UsageError(msg)
    if weights and (variants or portable):
        msg = "--weights is a split of its own: do it without --portable and --variants"
        raise UsageError(msg)
    output.document["wheel"] = str(wheel)
    if weights:
        from aotbuild.wheels.weights import split_weights

        print_written(output, split_weights(wheel, out, weights_versions))
        return
    print_written(output, _split(wheel, out, kept, portable, variants))


def _split(wheel: Path, out: Path, keep: list[str], portable: bool, variants: bool) -> Written:
    from aotbuild.wheels.split import split
    from aotbuild.wheels.variants import split_variants

    return (
        split_variants(wheel, out, keep) if variants else split(wheel, out, keep, portable=portable)
    )


def print_written(output: Output, written: Written) -> None:
    """Print the files that were written, with their sizes."""
    files = (*written.wheels, *written.beside)
    sizes = {path: path.stat().st_size for path in files}
    output.document["wheels"] = [
        {"path": str(path), "size": sizes[path]} for path in written.wheels
    ]
    output.document["beside"] = [str(path) for path in written.beside]
    output.document["notes"] = list(written.notes)
    for path in files:
        output.text(f"{printable(str(path))}  {bytes_text(sizes[path])}")
    for note in written.notes:
        output.text(printable(f"note: {note}"))
