"""`aotbuild store push` and `pull`: copy entries between the first folder and other layers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from aotbuild.cli.command import Argument, UsageError, age, argument, command, flag
from aotbuild.cli.exit_codes import FAILED
from aotbuild.cli.output import Output
from aotbuild.cli.store_layers import (
    behind,
    entries_text,
    folder_of,
    front_place,
    named_in_errors,
    size_of,
)
from aotbuild.store import copies
from aotbuild.store.copies import Copied, files_of
from aotbuild.store.folder import Folder
from aotbuild.store.owners import check_owners
from aotbuild.store.places import VARIABLE, Place
from aotbuild.store.remote import RemoteFiles
from aotbuild.store.trust import read_trust


def _others(purpose: str, default: str) -> Argument:
    help_text = f"The folder or URL {purpose}. Default: {default} of {VARIABLE}."
    return argument("layer", nargs="?", metavar="LAYER", help=help_text)


_NEWER = argument(
    "--newer-than",
    type=age,
    metavar="AGE",
    help="Only entries that were used within this time, as 2h, 7d or 8w.",
)


@command(
    "Copy entries to other layers.",
    _others("to write to", "all other layers that may be written,"),
    _NEWER,
    flag("--again", help="Also write what LAYER has, as to sign it."),
)
def push(output: Output, layer: str | None, newer_than: float | None, again: bool) -> int | None:
    """Write the entries of the first folder of AOTBUILD_STORE that may be written to LAYER, or to
    all other layers that may be written, as far as they lack them.

    With AOTBUILD_STORE_KEY they are signed; those that are there are not looked at. Damaged entries
    stay, and the command exits with 14.
    """
    trust, folder = read_trust(os.environ), folder_of(front_place())
    if trust.obstacle:
        raise UsageError(trust.obstacle)
    targets = [place for place in behind(layer) if place.writable]
    if not targets:
        msg = "no layer behind the first folder may be written"
        raise UsageError(msg, "LAYER")

    def copy(files: Folder | RemoteFiles, since: float | None) -> Copied:
        return copies.push(folder, files, trust, since, again=again)

    code = _copy(output, targets, newer_than, copy)
    if trust.signer and any(document["present"] for document in output.document["layers"]):
        output.text(
            "Entries that were there were not looked at. To sign them, too: "
            "aotbuild store push --again"
        )
    return code


@command("Copy entries from other layers.", _others("to read", "all other layers"), _NEWER)
def pull(output: Output, layer: str | None, newer_than: float | None) -> int | None:
    """Write the entries of LAYER, or of all other layers, to the first folder of AOTBUILD_STORE
    that may be written, as far as it lacks them: for a machine that will have no network.

    Each is checked first, with AOTBUILD_STORE_TRUST also its signature. Those that fail are not
    written, and the command exits with 14.
    """
    trust, folder = read_trust(os.environ), folder_of(front_place())

    def copy(files: Folder | RemoteFiles, since: float | None) -> Copied:
        return copies.pull(folder, files, trust, since)

    sources = behind(layer)
    for place in sources:
        if place.folder and not trust.keys:
            check_owners(place.folder, os.environ)
    return _copy(output, sources, newer_than, copy)


def _copy(
    output: Output,
    places: list[Place],
    newer_than: float | None,
    copy: Callable[[Folder | RemoteFiles, float | None], Copied],
) -> int | None:
    since = None if newer_than is None else time.time() - newer_than
    output.document["layers"] = documents = []
    for place in places:
        with named_in_errors(place):
            copied = copy(files_of(place), since)
        failures = [{"key": key, "problem": text} for key, text in sorted(copied.failures.items())]
        documents.append(
            {
                "layer": str(place),
                "copied": len(copied.entries),
                "size": size_of(copied.entries),
                "present": copied.present,
                "failures": failures,
            }
        )
        for failure in failures:
            output.text(f"FAIL: {failure['key']}: {failure['problem']}")
        output.text(f"{place}: copied {entries_text(copied.entries)}; {copied.present} were there")
    return FAILED if any(document["failures"] for document in documents) else None
