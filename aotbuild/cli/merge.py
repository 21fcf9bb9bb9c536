"""`aotbuild merge`: one wheel from what builds on several machines made."""

from __future__ import annotations

from pathlib import Path

from aotbuild.cli.command import argument, command, existing_place, new_folder
from aotbuild.cli.output import Output
from aotbuild.cli.split import print_wheels


@command(
    "Join wheels that were built on several machines.",
    argument("wheels", nargs="+", metavar="WHEEL", type=existing_place),
    argument(
        "--out",
        type=new_folder,
        required=True,
        metavar="DIR",
        help="The folder for the new wheel. Nothing in it is replaced.",
    ),
    argument(
        "--fallback",
        choices=["none", "portable", "jit"],
        help="What a call without an executable does, where the manifests do not agree on it.",
    ),
)
def merge(output: Output, wheels: list[Path], out: Path, fallback: str | None) -> None:
    """Write one wheel with the executables of all WHEELs: the same project, version and code, built
    on different machines, for different targets, or with different toolchains. A folder stands for
    the wheels in it.

    A CI matrix builds each target with a manifest of its own (AOTBUILD_MANIFEST), and joins what
    its runners made with this command. Each WHEEL is checked first and stays as it is.
    """
    from aotbuild.wheels.merge import merge_wheels

    output.document["from"] = [str(place) for place in wheels]
    found = [sorted(place.glob("*.whl")) if place.is_dir() else [place] for place in wheels]
    print_wheels(output, [merge_wheels([path for each in found for path in each], out, fallback)])
