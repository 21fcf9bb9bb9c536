"""`aotbuild export-cache`: entries of JAX's own persistent compilation cache from a package."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import JSON, UsageError, argument, command, flag, new_folder, seconds
from aotbuild.cli.exit_codes import PARTIAL, UNUSABLE
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output
from aotbuild.report.words import plural, printable, shown

if TYPE_CHECKING:
    from aotbuild.jax_cache.export import Entry, Exported
    from aotbuild.spec.signature import Function

_HEADERS = ("signature", "result")


@command(
    "Write a package's executables into JAX's own compilation cache.",
    argument("folder", metavar="DIR", type=new_folder),
    argument("package", metavar="PACKAGE"),
    argument(
        "--function",
        action="append",
        default=[],
        dest="functions",
        metavar="NAME",
        help="Export this function only; may be given again.",
    ),
    argument(
        "--committed",
        action="append",
        default=[],
        metavar="NAMES",
        help="Arguments that a program commits to a device, as params or params,state, while the "
        "others are not; may be given again. Without it, calls find the entry if none or all are.",
    ),
    argument(
        "--as",
        dest="known_as",
        default="",
        metavar="PATH",
        help="The path by which programs name DIR, if they run where it is another one.",
    ),
    argument(
        "--like",
        action="append",
        default=[],
        metavar="NAME=MODULE:ATTR",
        help="A tree, or a function that returns one, with the structure of an argument whose "
        "static data PACKAGE does not hold; may be given again.",
    ),
    flag("--overwrite", help="Replace entries that DIR has."),
    argument(
        "--timeout",
        type=seconds,
        default=3600.0,
        metavar="SECONDS",
        help="The time that it may take; default: 3600.",
    ),
    JSON,
)
def export_cache(
    output: Output,
    folder: Path,
    package: str,
    functions: list[str],
    committed: list[str],
    known_as: str,
    like: list[str],
    overwrite: bool,
    timeout: float,
    as_json: bool,
) -> int | None:
    """Write the executables of PACKAGE that fit this host into DIR, under JAX's own keys.

    PACKAGE is an installed package, a wheel, an _aot folder, or the folder around one. A program
    that calls the same functions under plain jax.jit, with jax_compilation_cache_dir=DIR, then
    reads them instead of compiling. Run this where the program will run, with its XLA_FLAGS and its
    number of devices: both are in the keys. The source is imported and lowered. Nothing is written
    of a signature unless the source gives exactly the program that was compiled.
    """
    import aotbuild.manifest  # noqa: F401 (where an extra is missing, say it here and not there)
    from aotbuild.jax_cache.export import export_cache

    output.as_json = as_json
    place = str(place_of(package))
    chosen = _chosen(place, functions)
    sets = [[name.strip() for name in names.split(",") if name.strip()] for names in committed]
    trees = dict(map(_tree, like))
    _check_arguments("--committed", itertools.chain(*sets), chosen)
    _check_arguments("--like", trees, chosen)
    names = [function.name for function in chosen]
    options: Any = {"known_as": known_as, "overwrite": overwrite, "timeout": timeout}
    found = export_cache(folder, place, names, sets, trees, **options)
    output.document.update(folder=str(folder), package=place, **found.to_json())
    _print(output, folder, found)
    missing = sum(not entry.keys for entry in found.entries)
    if missing == len(found.entries):
        return UNUSABLE
    return PARTIAL if missing else None


def _chosen(place: str, names: Sequence[str]) -> list[Function]:
    """Return the functions to export; UsageError for one that the package lacks."""
    from aotbuild.runtime.locate import locate, package_name
    from aotbuild.runtime.trust import open_trusted

    with closing(locate(place)) as source:
        index = open_trusted(source, None, package_name(place)).index
        known = {function.name: function for function in index.functions()}
    for name in names:
        if name not in known:
            listing = ", ".join(map(shown, sorted(known)))
            msg = f"the package has no function {name!r}; it has {listing}"
            raise UsageError(msg, "--function")
    return [known[name] for name in sorted(known) if not names or name in names]


def _tree(text: str) -> tuple[str, str]:
    name, _, reference = text.partition("=")
    if not (name and reference.partition(":")[2]):
        msg = f"expected NAME=MODULE:ATTR, found {text!r}"
        raise UsageError(msg, "--like")
    return name, reference


def _check_arguments(option: str, names: Iterable[str], functions: Sequence[Function]) -> None:
    """Raise UsageError for the name of an argument that no function has."""
    known = {name for each in functions for name in (*each.dynamic, *each.keywords)}
    for name in names:
        if name not in known:
            listing = ", ".join(map(shown, sorted(known)))
            msg = f"no function has an argument {name!r}; they have {listing}"
            raise UsageError(msg, option)


def _print(output: Output, folder: Path, found: Exported) -> None:
    output.table(_HEADERS, [(printable(each.signature), _result(each)) for each in found.entries])
    output.text()
    for note in found.notes:
        output.text(printable(f"note: {note}"))
    facts = ", ".join(f"{name} {value}" for name, value in found.facts.items() if value != "")
    output.text(printable(f"The keys are for: {facts}"))
    written = sum(len(each.written) for each in found.entries)
    output.text(f"{plural(written, 'key')} written to {printable(str(folder))}")


def _result(entry: Entry) -> str:
    if not entry.keys:
        return printable(f"no entry: {' '.join(entry.reason.split())}")
    parts = (
        (f"{plural(len(entry.written), 'key')} written", entry.written),
        (f"{plural(len(entry.kept), 'key')} already there", entry.kept),
    )
    return ", ".join(words for words, keys in parts if keys)
