"""From a file or text to a `Manifest`, or to all that is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

from aotbuild.format.canonical import as_utf8, is_utf8, sha256_hex
from aotbuild.manifest.checks import check_function
from aotbuild.manifest.declaration import Declaration
from aotbuild.manifest.model import Manifest
from aotbuild.manifest.problems import Problems
from aotbuild.manifest.reader import read_text, read_yaml, refusal
from aotbuild.manifest.reading import Origin
from aotbuild.manifest.targets import check_toolchains, read_targets
from aotbuild.manifest.validate import Checked, validate


def load_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest file; nothing of the user's is imported.

    Raises:
        ManifestError: with every problem; that the file cannot be read is one, too.
    """
    file = os.fspath(path)
    if not is_utf8(Path(file).name):
        # An index names the manifest that it was made of.
        raise refusal(as_utf8(file), "a name that is not UTF-8; rename the file")
    if "\\" in Path(file).name or Path(file).name[1:2] == ":":
        raise refusal(file, "a name that other systems take for a folder; rename the file")
    return parse_manifest(read_text(file), file)


def parse_manifest(text: str, filename: str = "aot.yaml") -> Manifest:
    """Read the text of a manifest; `filename` appears in the problems.

    Raises:
        ManifestError: with every problem. No text raises anything else.
    """
    problems = Problems(filename)
    document = read_yaml(text, problems)
    if document is not None and not isinstance(document.data, dict):
        message = "expected a map that begins with version: 1, found "
        problems.add(document.places[()].mark, (), message + document.describe(()))
    elif document is not None:
        problems.document = document
        origin = Origin(filename, sha256_hex(text.encode("utf-8", "surrogatepass")))
        checked = validate(document.data, origin, problems)
        if checked:
            return _completed(checked, problems)
    problems.raise_any()
    raise refusal(filename, "the manifest cannot be read")


def _completed(checked: Checked, problems: Problems) -> Manifest:
    """Return the manifest with the files of its targets read, if all of it fits together."""
    targets = read_targets(checked.model, problems)
    check_toolchains(checked.model, problems)
    for name, model in checked.model.functions.items():
        if ("functions", name) in problems.document.places:  # and no stand-in
            check_function(Declaration(name, model, checked, problems), targets)
    problems.raise_any()
    return checked.model.model_copy(update={"targets": targets})
