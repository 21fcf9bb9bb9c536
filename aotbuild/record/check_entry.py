"""Whether an entry says what was recorded: it is read as a manifest, and each call looked for."""

from __future__ import annotations

from aotbuild.errors import ManifestError
from aotbuild.format.words import quote
from aotbuild.manifest import parse_manifest
from aotbuild.record.entries import Entry
from aotbuild.record.matching import Expanded, Mismatch, fit
from aotbuild.record.yaml_text import flow

_NAME = "function"


def entry_problem(entry: Entry) -> str:
    """Return why an entry cannot be in a manifest, or lacks a call; empty if all is well."""
    text = flow({"version": 1, "package": "package", "functions": {_NAME: entry.body}})
    try:
        function = Expanded(parse_manifest(text).functions[_NAME])
    except ManifestError as err:
        found = err.problems[0]
        return f"{found.path.removeprefix(f'functions.{_NAME}.')}: {found.message}"
    return lacking(function, entry) or _surplus(function, entry)


def lacking(function: Expanded, entry: Entry) -> str:
    """Return which call a function of a manifest lacks; empty if it has all of an entry."""
    for seen in entry.calls.seen:
        shown = quote(", ".join(str(a) for arg in seen.call.arguments for a in arg.leaves[:3]))
        try:
            found = fit(function, entry.calls.function, seen)
        except Mismatch as err:
            return f"the call with {shown} has no form in a manifest: {err}"
        if not function.covers(found):
            return f"the call with {shown} is in no signature"
    return ""


def _surplus(function: Expanded, entry: Entry) -> str:
    count, most = function.signatures, len(entry.calls.seen)
    if count <= most or function.function.pad:
        return ""
    return f"{count} signatures would be compiled for {most} that were called"
