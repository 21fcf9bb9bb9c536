"""`aotbuild store`: what the layers of the store hold, and keeping them small and whole."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from aotbuild.cli.command import (
    Argument,
    Group,
    UsageError,
    age,
    argument,
    command,
    flag,
    size,
)
from aotbuild.cli.exit_codes import FAILED
from aotbuild.cli.output import Output
from aotbuild.cli.store_copy import pull, push
from aotbuild.cli.store_layers import (
    entries_text,
    entry_document,
    folder_of,
    named_in_errors,
    place_of,
    size_of,
    utc,
)
from aotbuild.report.words import bytes_text
from aotbuild.store.contents import Item, survey
from aotbuild.store.copies import entries_of, files_of
from aotbuild.store.entry import DamagedEntry, check_entry
from aotbuild.store.folder import Folder
from aotbuild.store.kinds import count_kinds, kind_of
from aotbuild.store.places import VARIABLE, Place, places
from aotbuild.store.prune import prune as prune_folder
from aotbuild.store.remote import Listed, RemoteFiles
from aotbuild.store.trust import Trust, read_trust

# Entries that are checked at a time.
_THREADS = 8


def _layer(what: str) -> Argument:
    help_text = f"{what} Default: the first folder of {VARIABLE} that may be written."
    return argument("layer", nargs="?", metavar="LAYER", help=help_text)


@command("Print the layers, their sizes, and whose signatures they need.")
def info(output: Output) -> None:
    """Print the layers of AOTBUILD_STORE: whether each may be written, how many entries it has and
    how large they are, and when they were used.

    Leftovers are damaged entries that builds have set aside, and entries of earlier versions of
    aotbuild: `aotbuild store prune` removes them.
    """
    named = places(os.environ)
    trust = read_trust(os.environ)
    layers = [_info(place) for place in named]
    output.document["layers"] = layers
    output.document["trusted"] = sorted(trust.keys)
    output.document["signer"] = trust.signer.key_id if trust.signer else None
    if not named:
        output.text(f"no store: {VARIABLE} is off")
        return
    headers = ("layer", "mode", "entries", "size", "leftovers", "first used", "last used")
    output.table(headers, [_info_row(layer) for layer in layers])
    for layer in layers:
        if layer["problem"]:
            output.text(f"{layer['layer']}: {layer['problem']}")
    if kinds := [row for layer in layers for row in _kind_rows(layer)]:
        output.text("")
        output.table(("layer", "kind", "entries", "size"), kinds)
    for key in sorted(trust.keys):
        output.text(f"trusted: {key}")
    if trust.signer:
        output.text(f"signs what is pushed: {trust.signer.key_id}")


def _info(place: Place) -> dict[str, Any]:
    known = (
        *("entries", "size", "kinds", "leftovers", "leftovers_size"),
        *("first_used", "last_used", "problem"),
    )
    document: dict[str, Any] = dict.fromkeys(("layer", "mode", *known))
    document |= {"layer": str(place), "mode": "rw" if place.writable else "ro"}
    try:
        entries = entries_of(files_of(place))
        contents = survey(place.folder) if place.folder else None
    except OSError as err:
        return document | {"problem": err.strerror or str(err)}
    if contents is not None:
        leftovers = contents.leftovers
        document |= {"leftovers": len(leftovers), "leftovers_size": size_of(leftovers)}
        document |= {"kinds": count_kinds(contents.entries)}
    used = sorted(entry.used for entry in entries if entry.used is not None)
    if used:
        document |= {"first_used": utc(used[0]), "last_used": utc(used[-1])}
    return document | {"entries": len(entries), "size": size_of(entries)}


def _kind_rows(layer: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (layer["layer"], kind, str(found["entries"]), bytes_text(found["size"]))
        for kind, found in (layer["kinds"] or {}).items()
    ]


def _info_row(layer: dict[str, Any]) -> tuple[str, ...]:
    counts = (layer["entries"], bytes_text(layer["size"]), layer["leftovers"])
    times = (layer["first_used"], layer["last_used"])
    cells = (layer["layer"], layer["mode"], *counts, *times)
    return tuple("-" if cell is None else str(cell) for cell in cells)


@command("List the entries of a layer.", _layer("The folder or URL."))
def list_(output: Output, layer: str | None) -> None:
    """List the entries of LAYER, the last used first: key, kind, size, and when each was used.

    The kinds in a URL are not known: each entry would have to be read.
    """
    place = place_of(layer)
    output.document["layer"] = str(place)
    with named_in_errors(place):
        entries = entries_of(files_of(place))
    newest_first = sorted(entries, key=lambda entry: (-(entry.used or 0), entry.key))
    kinds = [kind_of(each.path) if isinstance(each, Item) else None for each in newest_first]
    listed = [
        {**entry_document(each), "kind": kind}
        for each, kind in zip(newest_first, kinds, strict=True)
    ]
    output.document["entries"] = listed
    rows = [
        (each["key"], each["kind"] or "-", bytes_text(each["size"]), each["used"] or "-")
        for each in listed
    ]
    output.table(("key", "kind", "size", "used"), rows)


@command(
    "Remove what was not used for long.",
    _layer("The folder."),
    argument(
        "--max-size",
        type=size,
        metavar="SIZE",
        help="Remove the entries that were not used for the longest time until the rest have this "
        "size, as 5GB or 512MiB.",
    ),
    argument(
        "--older-than",
        type=age,
        metavar="AGE",
        help="Remove the entries that were not used for this time, as 8w, 30d, 12h or 45m.",
    ),
    flag("--dry-run", help="Remove nothing; say what would be removed."),
)
def prune(
    output: Output,
    layer: str | None,
    max_size: int | None,
    older_than: float | None,
    dry_run: bool,
) -> None:
    """Remove entries from LAYER, a folder, and the leftovers in it: damaged entries that builds
    have set aside, and entries of earlier versions of aotbuild. Without options, only the leftovers
    go.

    Builds may run meanwhile. They make again what they miss.
    """
    place = place_of(layer)
    output.document["layer"] = str(place)
    if not place.writable:
        msg = f"{place} is read-only (mode=ro)"
        raise UsageError(msg)
    pruned = prune_folder(
        folder_of(place).root,
        time.time(),
        max_size=max_size,
        older_than=older_than,
        dry_run=dry_run,
    )
    output.document["dry_run"] = dry_run
    output.document["removed"] = [entry_document(item) for item in pruned.entries]
    output.document["leftovers"] = [str(item.path) for item in pruned.leftovers]
    output.document["left"] = {"entries": len(pruned.left), "size": size_of(pruned.left)}
    words = "would remove" if dry_run else "removed"
    leftovers = entries_text(pruned.leftovers, "leftovers")
    output.text(f"{words} {entries_text(pruned.entries)} and {leftovers}")
    output.text(f"left: {entries_text(pruned.left)}")


@command("Check the entries of a layer.", _layer("The folder or URL."))
def verify(output: Output, layer: str | None) -> int | None:
    """Read each entry of LAYER and compare its key, size and SHA-256 with what it says of itself.

    With AOTBUILD_STORE_TRUST, check signatures, too: all entries of a layer need one, except those
    of the first folder, which builds on this machine have made. A build doesn't use an entry that
    fails here. It makes it again. Exits with 14 if one fails.
    """
    place = place_of(layer)
    output.document["layer"] = str(place)
    trust = read_trust(os.environ)
    files = files_of(place)
    check = partial(_problem, files, trust, is_front=_is_front(place))
    with named_in_errors(place), ThreadPoolExecutor(_THREADS) as threads:
        entries = entries_of(files)
        problems = list(threads.map(check, entries))
    pairs = zip(entries, problems, strict=True)
    failed = [{**entry_document(each), "problem": text} for each, text in pairs if text]
    output.document["checked"] = len(entries)
    output.document["failures"] = failed
    for failure in failed:
        output.text(f"FAIL: {failure['key']}: {failure['problem']}")
    output.text(f"{entries_text(entries)} checked, {len(failed)} failed")
    return FAILED if failed else None


def _problem(
    files: Folder | RemoteFiles, trust: Trust, entry: Item | Listed, *, is_front: bool
) -> str | None:
    raw = files.read(entry.key)
    if raw is None:
        # It may have been pruned meanwhile.
        is_there = isinstance(entry, Item) and os.path.lexists(entry.path)
        return "it cannot be read" if is_there else None
    try:
        head = check_entry(raw, entry.key)
    except DamagedEntry as err:
        return str(err)
    if is_front and not any(seal.key_id in trust.keys for seal in head.seals):
        return None
    return trust.problem(head)


def _is_front(place: Place) -> bool:
    """Return whether builds write to this folder first."""
    named = (each.folder for each in places(os.environ) if each.writable)
    return place.folder is not None and place.folder == next(filter(None, named), None)


STORE = Group(
    "store",
    "Show, check, prune and copy what earlier builds have compiled.",
    "The store keeps what builds have compiled, in the layers that AOTBUILD_STORE names: folders "
    "and URLs.",
    (info, list_, prune, verify, push, pull),
)
