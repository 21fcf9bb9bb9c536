"""`aotbuild weights`: another version of a wheel of weights."""

from __future__ import annotations

from pathlib import Path

from aotbuild.cli.command import JSON, argument, command, existing_file, existing_place, new_folder
from aotbuild.cli.output import Output
from aotbuild.cli.split import print_written


@command(
    "Write a wheel of new weights.",
    argument("file", metavar="FILE", type=existing_place),
    argument(
        "--like",
        type=existing_file,
        required=True,
        metavar="WHEEL",
        help="A wheel of weights, which says their names, shapes and dtypes.",
    ),
    argument("--version", required=True, metavar="VERSION", help="The version of the new wheel."),
    argument(
        "--out",
        type=new_folder,
        required=True,
        metavar="DIR",
        help="The folder for the new wheel. Nothing in it is replaced.",
    ),
    argument(
        "--prefix",
        default="",
        metavar="NAME",
        help="What all names begin with, if FILE leaves it out.",
    ),
    JSON,
)
def weights(
    output: Output, file: Path, like: Path, version: str, out: Path, prefix: str, as_json: bool
) -> None:
    """Write the arrays of FILE, safetensors or a folder of them, as another version of WHEEL.

    WHEEL is one that `aotbuild split --weights` or this command wrote. Every array must be there
    with its name, shape and dtype.
    """
    from aotbuild.wheels.weights import new_weights

    output.as_json = as_json
    print_written(output, new_weights(file, like, version, out, prefix))
