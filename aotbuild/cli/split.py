"""`aotbuild split`: a slim base wheel, and a companion wheel for each family of targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aotbuild.cli.command import UsageError, argument, command, existing_file, new_folder
from aotbuild.cli.output import Output
from aotbuild.format.target import HOST, PORTABLE
from aotbuild.report.words import bytes_text, printable


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
)
def split(output: Output, wheel: Path, out: Path, keep: str) -> None:
    """Split WHEEL: its code and what --keep names become the base, the rest one companion wheel for
    each family of targets.

    The base has an extra for each: `pip install mypkg[cuda]`. WHEEL is checked first and stays as
    it is. Wheels to be merged are merged first.
    """
    from aotbuild.wheels.split import FAMILIES
    from aotbuild.wheels.split import split as split_wheel

    kept = [name.strip() for name in keep.split(",") if name.strip()]
    unknown = [name for name in kept if name not in FAMILIES]
    if unknown:
        msg = f"{unknown[0]!r} is no family of targets; expected some of {', '.join(FAMILIES)}"
        raise UsageError(msg, "--keep")
    output.document["wheel"] = str(wheel)
    print_wheels(output, split_wheel(wheel, out, kept))


def print_wheels(output: Output, wheels: Sequence[Path]) -> None:
    """Print the wheels that were written, with their sizes."""
    sizes = {path: path.stat().st_size for path in wheels}
    output.document["wheels"] = [{"path": str(path), "size": sizes[path]} for path in wheels]
    for path in wheels:
        output.text(f"{printable(str(path))}  {bytes_text(sizes[path])}")
