"""`aotbuild stubs`: types of a package's functions, for type checkers and editors."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from aotbuild.cli.command import UsageError, argument, command, new_file
from aotbuild.cli.destination import Destination
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output


@command(
    "Write the types of a package's functions (.pyi).",
    argument("place", metavar="PLACE"),
    argument("-o", "--out", type=new_file, metavar="FILE", help="Write here, not to stdout."),
    argument("--name", metavar="NAME", help="The library's class; default: by the package."),
    argument(
        "--arrays",
        choices=("jax", "numpy"),
        default="jax",
        help="What calls take and return, as in load(arrays=…).",
    ),
)
def stubs(_: Output, place: str, out: Path | None, name: str | None, arrays: str) -> None:
    """Write what aotbuild.load returns for PLACE as types: a wheel, an _aot folder, or a package.

    Reads the index alone, and imports neither the package nor jax.
    """
    from aotbuild.report.stubs import BEGINS, stub_text
    from aotbuild.runtime.locate import locate
    from aotbuild.runtime.source import open_index

    if name is not None and not name.isidentifier():
        msg = f"expected the name of a class, found {name!r}"
        raise UsageError(msg, "--name")
    destination = Destination(out, BEGINS, "stub that aotbuild wrote")
    module = out.stem if out is not None else "FILE"
    with closing(locate(place_of(place))) as source:
        text = stub_text(open_index(source), arrays, module, name)
    destination.write(text.encode("utf-8"))
