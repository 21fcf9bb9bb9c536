"""Whether an entry says what was recorded: it is read as a manifest, and each call looked for."""

from __future__ import annotations

from aotbuild.errors import ManifestError
from aotbuild.format.tree_file import DescribedTree
from aotbuild.format.words import quote
from aotbuild.manifest import parse_manifest
from aotbuild.record.entries import Entry, InFile
from aotbuild.record.matching import Expanded, Mismatch, fit
from aotbuild.record.trees_file import TREES_FILE
from aotbuild.record.yaml_text import flow

_NAME = "function"


def entry_problem(entry: Entry) -> str:
    """Return why an entry cannot be in a manifest, or lacks a call; empty if all is well."""
    files: dict[str, DescribedTree] = {}
    body = dict(entry.body)
    args = [{name: _plain(spec, files) for name, spec in entry.args}.items()]
    body["args"] = [{name: spec} for items in args for name, spec in items]
    body["kwargs"] = {name: _plain(spec, files) for name, spec in entry.kwargs}
    text = flow({"version": 1, "package": "package", "functions": {_NAME: body}})
    try:
        function = Expanded(parse_manifest(text, files={TREES_FILE: files}).functions[_NAME])
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


def _plain(spec: object, files: dict[str, DescribedTree]) -> object:
    if not isinstance(spec, InFile):
        return spec
    name = f"tree_{len(files)}"
    files[name] = spec.tree
    return {"file": TREES_FILE, "name": name}
