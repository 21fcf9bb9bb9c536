"""`aotbuild store`: what the store holds, and keeping it small and whole."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from aotbuild.cli.command import Group, UsageError, age, argument, command, flag, size
from aotbuild.cli.exit_codes import FAILED
from aotbuild.cli.output import Output
from aotbuild.format.words import bytes_text
from aotbuild.store.entry import DamagedEntry, check_entry
from aotbuild.store.folder import Folder
from aotbuild.store.place import VARIABLE, store_place
from aotbuild.store.prune import Item, survey
from aotbuild.store.prune import prune as prune_folder


@command("Print where the store is, and how large.")
def info(output: Output) -> None:
    """Print the folder of AOTBUILD_STORE and what is behind it, how many entries the folder has,
    how large they are, and when they were used.
    """
    place = store_place(os.environ)
    output.document["folder"] = place.folder and str(place.folder)
    output.document["behind"] = place.behind and str(place.behind)
    if place.folder is None:
        output.text(f"no store: {VARIABLE} is off")
        return
    entries = survey(place.folder)
    used = sorted(entry.used for entry in entries)
    first, last = (_utc(used[0]), _utc(used[-1])) if used else (None, None)
    output.document.update(entries=len(entries), size=_size(entries))
    output.document.update(first_used=first, last_used=last)
    output.text(f"{place.folder}: {_text(entries)}")
    if used:
        output.text(f"used between {first} and {last}")
    if place.behind:
        output.text(f"behind it: {place.behind}")


@command(
    "Remove what was not used for long.",
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
def prune(output: Output, max_size: int | None, older_than: float | None, dry_run: bool) -> None:
    """Remove entries from the folder of AOTBUILD_STORE, and what killed builds left in it.

    Builds may run meanwhile. They make again what they miss. Give a bucket behind the folder a rule
    that deletes objects by age.
    """
    folder = _folder()
    pruned = prune_folder(
        folder, time.time(), max_size=max_size, older_than=older_than, dry_run=dry_run
    )
    output.document.update(folder=str(folder), dry_run=dry_run)
    output.document["removed"] = [_document(item) for item in pruned.removed]
    output.document["left"] = {"entries": len(pruned.left), "size": _size(pruned.left)}
    output.text(f"{'would remove' if dry_run else 'removed'} {_text(pruned.removed)}")
    output.text(f"left: {_text(pruned.left)}")


@command("Check the entries of the store.")
def verify(output: Output) -> int | None:
    """Read each entry in the folder of AOTBUILD_STORE and compare its key, size and SHA-256 with
    what it says of itself.

    A build doesn't use an entry that fails here. It makes it again. Exits with 5 if one fails.
    """
    folder = _folder()
    entries, failed = survey(folder), []
    for entry in entries:
        raw = Folder(folder).read(entry.key)
        try:
            if raw is not None:
                check_entry(raw, entry.key)
            elif os.path.lexists(entry.path):  # else it was pruned meanwhile
                failed.append({**_document(entry), "problem": "it cannot be read"})
        except DamagedEntry as err:
            failed.append({**_document(entry), "problem": str(err)})
    output.document.update(folder=str(folder), checked=len(entries), failures=failed)
    for failure in failed:
        output.text(f"FAIL: {failure['key']}: {failure['problem']}")
    output.text(f"{_text(entries)} checked, {len(failed)} failed")
    return FAILED if failed else None


def _folder() -> Path:
    folder = store_place(os.environ).folder
    if folder is None:
        msg = f"there is no store: {VARIABLE} is off"
        raise UsageError(msg)
    return folder


def _document(item: Item) -> dict[str, str | int | None]:
    return {"key": item.key, "size": item.size, "used": _utc(item.used)}


def _utc(seconds: float) -> str:
    """Return a time as text; files may have times that no calendar has."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def _size(items: Collection[Item]) -> int:
    return sum(item.size for item in items)


def _text(items: Collection[Item]) -> str:
    """Return how many there are and how large they are, as `2 entries (1.5 MB)`."""
    noun = "entry" if len(items) == 1 else "entries"
    return f"{len(items)} {noun} ({bytes_text(_size(items))})"


STORE = Group(
    "store",
    "Show, check and prune what earlier builds have compiled.",
    "The store keeps what builds have compiled, in the folder that AOTBUILD_STORE names; behind it "
    "there may be a URL that several machines share.",
    (info, prune, verify),
)
