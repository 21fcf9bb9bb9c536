"""`aotbuild merge`: one wheel from wheels that were built on several machines, or split."""

from __future__ import annotations

from pathlib import Path

from aotbuild.cli.command import JSON, argument, command, existing_file, new_folder
from aotbuild.cli.output import Output
from aotbuild.cli.split import print_written


@command(
    "Join wheels that were built on several machines, or split.",
    argument("wheels", nargs="+", metavar="WHEEL", type=existing_file),
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
    JSON,
)
def merge(
    output: Output, wheels: list[Path], out: Path, fallback: str | None, as_json: bool
) -> None:
    """Write one wheel with the executables of all WHEELS: the same project, version and code, built
    on different machines or with different toolchains; or a base and its companions.

    WHEELS are checked first and stay as they are.
    """
    from aotbuild.wheels.merge import merge

    output.as_json = as_json
    output.document["from"] = [str(wheel) for wheel in wheels]
    print_written(output, merge(tuple(wheels), out, fallback))
