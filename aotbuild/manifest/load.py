"""From a file or text to a `Manifest`, or to all that is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

from aotbuild.errors import ManifestError, Problem
from aotbuild.manifest.entries import read_functions
from aotbuild.manifest.nodes import START, MapNode, Mark, Node
from aotbuild.manifest.problems import Problems, describe
from aotbuild.manifest.reader import MAX_BYTES, TOO_LARGE, read_yaml
from aotbuild.manifest.targets import read_targets, read_toolchains
from aotbuild.manifest.types import KeepOptions, Manifest
from aotbuild.manifest.validate import Checked, validate
from aotbuild.spec.canonical import sha256_hex


def load_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest file; nothing of the user's is imported.

    Raises:
        ManifestError: with every problem, the file itself being unreadable included.
    """
    file = os.fspath(path)
    return parse_manifest(_decode(file, _read(file)), file)


def parse_manifest(text: str, filename: str = "aot.yaml") -> Manifest:
    """Read the text of a manifest; `filename` appears in the problems.

    Raises:
        ManifestError: with every problem found, and nothing else for any text.
    """
    problems = Problems(filename)
    root = read_yaml(text, problems)
    if root is None:
        problems.raise_any()
    elif not isinstance(root, MapNode):
        message = f"expected a map that begins with version: 1, found {describe(root)}"
        problems.add(root.mark, "", message)
    else:
        checked = validate(root, problems)
        if checked:
            digest = sha256_hex(text.encode("utf-8", "surrogatepass"))
            return _assemble(checked, root, problems, digest)
    problems.raise_any()
    raise _refusal(filename, "the manifest cannot be read")


def _assemble(checked: Checked, root: Node, problems: Problems, digest: str) -> Manifest:
    model = checked.model
    targets = read_targets(model, root, problems)
    manifest = Manifest(
        file=problems.file,
        digest=digest,
        version=model.version,
        package=model.package,
        runtime=model.runtime,
        fallback=model.fallback,
        targets=targets,
        toolchains=read_toolchains(model, root, problems),
        functions=read_functions(checked, root, targets, problems),
        keep=KeepOptions(tuple(dict.fromkeys(model.keep.stages)), model.keep.where),
        memory=model.memory,
    )
    problems.raise_any()
    return manifest


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
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as err:
        raise _refusal(file, _unreadable(err)) from err
    if len(data) > MAX_BYTES:
        raise _refusal(file, TOO_LARGE)
    return data


def _unreadable(err: OSError | ValueError) -> str:
    if isinstance(err, IsADirectoryError):
        return "a directory; expected a YAML file"
    if isinstance(err, FileNotFoundError):
        return "no such file; expected a YAML manifest: write it, or give the path of another"
    return f"cannot be read: {getattr(err, 'strerror', None) or err}"


def _refusal(file: str, message: str, mark: Mark = START) -> ManifestError:
    return ManifestError([Problem(file, mark.line, mark.column, "", message)])
