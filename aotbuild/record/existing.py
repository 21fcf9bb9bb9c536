"""An existing manifest, and the proof that a changed one is as meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aotbuild.errors import ManifestError, ProjectError
from aotbuild.manifest import Function, Manifest, parse_manifest
from aotbuild.manifest.nodes import MapNode, Problems, ScalarNode, child
from aotbuild.manifest.reader import read_yaml
from aotbuild.record.check_entry import lacking
from aotbuild.record.draft import Draft
from aotbuild.record.matching import Expanded
from aotbuild.record.unfinished import unfinished_entries, without_entries


class NotAsMeant(ProjectError):
    """A manifest is written in a way that calls cannot be added to. Nothing was written."""

    def __init__(self, manifest: Path, found: str) -> None:
        self.manifest = manifest
        super().__init__(
            str(manifest),
            f"what was recorded cannot be added to this manifest: {found}",
            "Nothing was changed. Write the manifest to another file with --out, and copy from "
            "there what you need.",
        )


@dataclass(frozen=True)
class Existing:
    """A manifest that is there already.

    Attributes:
        model: What it says; None if it has no functions yet.
        unfinished: The calls of the functions that have a TODO, by name; they are not in the model.
    """

    model: Manifest | None
    unfinished: Mapping[str, str] = field(default_factory=dict)

    @property
    def functions(self) -> Mapping[str, Function]:
        """Its functions by name."""
        return self.model.functions if self.model else {}


def read_existing(text: str | None, manifest: Path) -> Existing | None:
    """Return a manifest as it is; None for no file, or an empty one. ManifestError if invalid."""
    if text is None:
        return None
    if all(line.startswith("#") for line in map(str.strip, text.split("\n")) if line):
        return None
    try:
        return _read(text, manifest)
    except ManifestError:
        unfinished = unfinished_entries(text)
        if not unfinished:
            raise
        try:
            found = _read(without_entries(text, unfinished), manifest)
        except ManifestError:
            found = None
        if found is None:  # the positions of the whole text are those that people see
            raise
        return Existing(found.model, unfinished)


def prove(text: str, manifest: Path, existing: Existing | None, draft: Draft) -> None:
    """Read a new text, and compare it with what was meant; NotAsMeant if it differs."""
    left = {*(existing.unfinished if existing else ())} - {each.name for each in draft.added}
    try:
        whole = without_entries(text, left) if left else text
        model = parse_manifest(whole, str(manifest))
    except ManifestError as err:
        raise NotAsMeant(manifest, f"the new text would not be valid: {err}") from err
    problem = next(_differences(model, existing, draft), None)
    if problem:
        raise NotAsMeant(manifest, problem)


def _read(text: str, manifest: Path) -> Existing:
    root = read_yaml(text, Problems(str(manifest)))
    functions = child(root, "functions") if root else None
    is_empty = isinstance(functions, MapNode) and not functions.entries
    is_null = isinstance(functions, ScalarNode) and functions.value is None
    if isinstance(root, MapNode) and (is_empty or is_null):
        return Existing(None)
    return Existing(parse_manifest(text, str(manifest)))


def _differences(model: Manifest, existing: Existing | None, draft: Draft) -> Iterator[str]:
    for added in draft.added:
        if added.name not in model.functions:
            yield f"{added.name} would be missing"
            return
        problem = lacking(Expanded(model.functions[added.name]), added.entry)
        if problem:
            yield f"{added.name}: {problem}"
    old = existing.model if existing else None
    if old is None:
        return
    wanted = {e.name: e.extension.signatures for e in draft.extended if e.extension.is_change}
    for name, function in old.functions.items():
        new = model.functions.get(name)
        if name not in wanted and new != function:
            yield f"{name} would change"
        elif name in wanted and (new is None or Expanded(new).signatures != wanted[name]):
            yield f"{name} would not have {wanted[name]} signatures"
    for option in type(old).model_fields.keys() - {"functions", "defaults"}:
        if getattr(old, option) != getattr(model, option):
            yield f"{option} would change"
