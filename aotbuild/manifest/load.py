"""From a file or text to a `Manifest`, or to all that is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

from aotbuild.errors import ManifestError, Problem
from aotbuild.format.canonical import as_utf8, is_utf8, sha256_hex
from aotbuild.format.files import open_regular
from aotbuild.manifest.checks import check_function
from aotbuild.manifest.declaration import Declaration
from aotbuild.manifest.dims import SIGNATURE_OPTIONS
from aotbuild.manifest.model import Manifest
from aotbuild.manifest.problems import START, Mark, Problems
from aotbuild.manifest.reader import MAX_BYTES, TOO_LARGE, read_yaml
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
        raise _refusal(as_utf8(file), "a name that is not UTF-8; rename the file")
    if "\\" in Path(file).name or Path(file).name[1:2] == ":":
        raise _refusal(file, "a name that other systems take for a folder; rename the file")
    return parse_manifest(_decode(file, _read(file)), file)


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
    raise _refusal(filename, "the manifest cannot be read")


def _completed(checked: Checked, problems: Problems) -> Manifest:
    """Return the manifest with the files of its targets read, if all of it fits together."""
    targets = read_targets(checked.model, problems)
    check_toolchains(checked.model, problems)
    for name in checked.model.functions:
        if ("functions", name) in problems.document.places:  # and no stand-in
            check_function(_declaration(checked, problems, name), targets)
    problems.raise_any()
    return checked.model.model_copy(update={"targets": targets})


def _declaration(checked: Checked, problems: Problems, name: str) -> Declaration:
    own = checked.broken_in("functions", name)
    model = checked.model.functions[name]
    here = ("functions", name, "signatures")
    every = frozenset(SIGNATURE_OPTIONS)
    whole = checked.broken_in(*here)
    signatures = tuple(
        every if str(index) in whole else checked.broken_in(*here, index)
        for index in range(len(model.signatures))
    )
    inside = frozenset[str]().union(*signatures, every if "signatures" in own else ())
    broken = own | inside | (checked.broken_in() & {"targets"})
    return Declaration(name, model, broken, problems, signatures)


def _decode(file: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        start = err.start
    line_start = data.rfind(b"\n", 0, start) + 1
    mark = Mark(data.count(b"\n", 0, start) + 1, start - line_start + 1)
    raise _refusal(file, f"not UTF-8 (byte 0x{data[start]:02x}); save the file as UTF-8", mark)


def _read(file: str) -> bytes:
    """Return the bytes of the file, at most one more than a manifest may have."""
    try:
        with open_regular(file) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as err:
        raise _refusal(file, _unreadable(file, err)) from err
    if len(data) > MAX_BYTES:
        raise _refusal(file, TOO_LARGE)
    return data


def _unreadable(file: str, err: OSError | ValueError) -> str:
    if isinstance(err, IsADirectoryError):
        return "a directory; expected a YAML file"
    if isinstance(err, FileNotFoundError):
        if Path(file).with_name("PKG-INFO").is_file():
            table = "[tool.hatch.build.targets.sdist]"
            return f"no such file in this source distribution; select it under {table}"
        return "no such file; expected a YAML manifest: write it, or give the path of another"
    return f"cannot be read: {getattr(err, 'strerror', None) or err}"


def _refusal(file: str, message: str, mark: Mark = START) -> ManifestError:
    return ManifestError([Problem(file, mark.line, mark.column, "", message)])
