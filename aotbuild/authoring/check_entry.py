"""Whether an entry says what was recorded: it is read as a manifest, and each call looked for."""

from __future__ import annotations

from math import prod

from aotbuild.authoring.entries import Entry, InFile
from aotbuild.authoring.flow import flow
from aotbuild.authoring.matching import Mismatch, fit, is_covered, rows_of, static_values
from aotbuild.authoring.trees_file import TREES_FILE
from aotbuild.errors import ManifestError
from aotbuild.manifest import Function, parse_manifest
from aotbuild.spec.tree_file import DescribedTree
from aotbuild.spec.words import quote

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
        function = parse_manifest(text, files={TREES_FILE: files}).functions[_NAME]
    except ManifestError as err:
        found = err.problems[0]
        return f"{found.path.removeprefix(f'functions.{_NAME}.')}: {found.message}"
    return lacking(function, entry) or _surplus(function, entry)


def lacking(function: Function, entry: Entry) -> str:
    """Return which call a function of a manifest lacks; empty if it has all of an entry."""
    for seen in entry.calls.seen:
        shown = quote(", ".join(str(a) for arg in seen.call.arguments for a in arg.leaves[:3]))
        try:
            found = fit(function, entry.calls.function, seen)
        except Mismatch as err:
            return f"the call with {shown} has no form in a manifest: {err}"
        if not is_covered(function, found):
            return f"the call with {shown} is in no signature"
    return ""


def signature_count(function: Function) -> int:
    """Return how many signatures a function has."""
    return len(rows_of(function)) * prod(map(len, static_values(function)))


def _surplus(function: Function, entry: Entry) -> str:
    count, most = signature_count(function), len(entry.calls.seen)
    if count <= most or function.pad:
        return ""
    return f"{count} signatures would be compiled for {most} that were called"


def _plain(spec: object, files: dict[str, DescribedTree]) -> object:
    if not isinstance(spec, InFile):
        return spec
    name = f"tree_{len(files)}"
    files[name] = spec.tree
    return {"file": TREES_FILE, "name": name}
