"""`aotbuild merge`: one package from what builds on several machines made."""

from __future__ import annotations

from pathlib import Path

from aotbuild.cli.command import UsageError, argument, command, existing_place, new_folder
from aotbuild.cli.output import Output
from aotbuild.cli.project import check_replaceable
from aotbuild.cli.split import print_wheels
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.report.words import bytes_text, plural, printable


@command(
    "Join wheels or _aot folders that were built on several machines.",
    argument("built", nargs="+", metavar="BUILT", type=existing_place),
    argument(
        "--out",
        type=new_folder,
        required=True,
        metavar="DIR",
        help="The folder for the new wheel. Nothing in it is replaced. For _aot folders, the _aot "
        "folder to write.",
    ),
    argument(
        "--fallback",
        choices=["none", "portable", "jit"],
        help="What a call without an executable does, where the manifests do not agree on it.",
    ),
)
def merge(output: Output, built: list[Path], out: Path, fallback: str | None) -> None:
    """Write one wheel, or one _aot folder, with the executables of all that were BUILT: the same
    project, version and code, built on different machines, for different targets, or with different
    toolchains. A folder stands for the wheels in it, or for the one _aot folder below it.

    A CI matrix builds each target with a manifest of its own (AOTBUILD_MANIFEST, or the argument of
    `aotbuild build`), and joins what its runners made with this command. What was BUILT is checked
    first and stays as it is.
    """
    from aotbuild.wheels.merge import merge_folders, merge_wheels

    output.document["from"] = [str(place) for place in built]
    found = [file for place in built for file in _meant(place)]
    folders = [file for file in found if file.is_dir()]
    if not folders:
        print_wheels(output, [merge_wheels(found, out, fallback)])
        return
    if len(folders) < len(found):
        wheel = next(file for file in found if file not in folders)
        msg = f"{folders[0]} is an _aot folder, which does not go together with {wheel}"
        raise UsageError(msg)
    check_replaceable(out)
    if any(out.exists() and out.samefile(folder) for folder in folders):
        msg = f"{out} is one of the folders to join, which stay as they are; name another"
        raise UsageError(msg, "--out")
    records = merge_folders(folders, out, fallback).records
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    output.document.update(folder=str(out), size=size)
    units = plural(len(records), "executable")
    output.text(f"{printable(str(out))}  {units}, {bytes_text(size)}")


def _meant(place: Path) -> list[Path]:
    """Return the wheels that an argument stands for, or the `_aot` folder."""
    if not place.is_dir() or (place / INDEX_NAME).is_file():
        return [place]
    if wheels := sorted(place.glob("*.whl")):
        return wheels
    found = sorted(index.parent for index in place.rglob(f"{FOLDER_NAME}/{INDEX_NAME}"))
    if len(found) != 1:
        several = f": expected one _aot folder below it, found {', '.join(map(str, found))}"
        none = " is no _aot folder, and there are neither wheels in it nor an _aot folder below it"
        msg = f"{place}{several if found else none}"
        raise UsageError(msg)
    return found
