"""`aotbuild merge`: one package from wheels of several machines, from a split, or from shards."""

from __future__ import annotations

from pathlib import Path

from aotbuild.cli.command import JSON, UsageError, argument, command, existing_place, new_folder
from aotbuild.cli.output import Output, say
from aotbuild.cli.project import check_replaceable
from aotbuild.cli.split import print_written
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.report.words import bytes_text, plural, printable


@command(
    "Join wheels that were built on several machines, or split; or shards of a build.",
    argument("wheels", nargs="+", metavar="WHEEL", type=existing_place),
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
    JSON,
)
def merge(
    output: Output, wheels: list[Path], out: Path, fallback: str | None, as_json: bool
) -> int | None:
    """Write one wheel with the executables of all WHEELS: the same project, version and code, built
    on different machines or with different toolchains; a base and its companions; or all shards.

    WHEELS are checked first and stay as they are. A folder stands for the wheels in it, or for the
    one _aot folder below it. The _aot folders of shards are joined to one _aot folder.
    """
    from aotbuild.wheels.merge import merge

    output.as_json = as_json
    output.document["from"] = [str(wheel) for wheel in wheels]
    files = [file for place in wheels for file in _meant(place)]
    folders = [file for file in files if file.is_dir()]
    if folders:
        if len(folders) < len(files) or fallback:
            other = "--fallback" if fallback else next(f for f in files if f not in folders)
            msg = f"{folders[0]} is an _aot folder, which does not go together with {other}"
            raise UsageError(msg)
        return _merge_folders(output, folders, out)
    print_written(output, merge(tuple(files), out, fallback))
    return None


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


def _merge_folders(output: Output, folders: list[Path], out: Path) -> int | None:
    from aotbuild.cli.exit_codes import PARTIAL
    from aotbuild.errors import listing
    from aotbuild.wheels.shards import merge_folders

    check_replaceable(out)
    if any(out.exists() and out.samefile(folder) for folder in folders):
        msg = f"{out} is one of the shards, which stay as they are; name another"
        raise UsageError(msg, "--out")
    joined = merge_folders(folders, out)
    made, size = joined.made, sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    output.document.update(
        folder=str(out), size=size, stages=str(joined.stages) if joined.stages else None
    )
    output.document["failures"] = [vars(failure) for failure in made.failures]
    units = plural(len(made.records), "unit")
    output.text(f"{printable(str(out))}  {units}, {bytes_text(size)}")
    if joined.stages:
        output.text(f"kept stages are in {printable(str(joined.stages))}")
    if not made.failures:
        return None
    say(f"{len(made.failures)} build units failed and were left out:\n{listing(made.failures)}")
    return PARTIAL
