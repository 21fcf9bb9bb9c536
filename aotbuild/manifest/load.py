"""From a file or text to a `Manifest`, or to all that is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from aotbuild.errors import ManifestError, Problem
from aotbuild.format.canonical import as_utf8, is_utf8, sha256_hex
from aotbuild.format.files import open_regular
from aotbuild.manifest.checks import Declaration, check_function, check_signature
from aotbuild.manifest.dims import SIGNATURE_OPTIONS
from aotbuild.manifest.function import Function
from aotbuild.manifest.model import Manifest, Origin
from aotbuild.manifest.nodes import (
    START,
    MapNode,
    Mark,
    Node,
    Problems,
    ScalarNode,
    child,
    describe,
)
from aotbuild.manifest.reader import MAX_BYTES, TOO_LARGE, read_yaml
from aotbuild.manifest.shardings import Sharding, ShardingReader
from aotbuild.manifest.signatures import check_dims, check_pads, check_used, read_statics
from aotbuild.manifest.specs import ArgSpec, SpecReader
from aotbuild.manifest.targets import check_toolchains, read_targets
from aotbuild.manifest.validate import Checked, validate
from aotbuild.platforms.building import Request

Named = tuple[tuple[str, ArgSpec], ...]


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
    root = read_yaml(text, problems)
    if root is None:
        problems.raise_any()
    elif not isinstance(root, MapNode):
        message = f"expected a map that begins with version: 1, found {describe(root)}"
        problems.add(root.mark, "", message)
    else:
        origin = Origin(filename, sha256_hex(text.encode("utf-8", "surrogatepass")))
        checked = validate(root, origin, problems)
        if checked:
            return _completed(checked, root, problems)
    problems.raise_any()
    raise _refusal(filename, "the manifest cannot be read")


def _completed(checked: Checked, root: Node, problems: Problems) -> Manifest:
    """Return the manifest with files, specs, shardings and static values read."""
    targets = read_targets(checked.model, root, problems)
    check_toolchains(checked.model, root, problems)
    declarations = _declarations(checked, root, problems)
    functions = {declared.name: _function(declared, targets) for declared in declarations}
    problems.raise_any()
    update = {"targets": targets, "functions": functions}
    return checked.model.model_copy(update=update)


def _declarations(checked: Checked, root: Node, problems: Problems) -> list[Declaration]:
    functions = child(root, "functions")
    entries = functions.entries if isinstance(functions, MapNode) else ()
    return [
        _declaration(checked, problems, key, entry)
        for key, entry in entries
        if isinstance(key.value, str) and key.value in checked.model.functions
    ]


def _declaration(checked: Checked, problems: Problems, key: ScalarNode, entry: Node) -> Declaration:
    name = str(key.value)
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
    return Declaration(name, key, entry, model, broken, problems, signatures)


def _function(declared: Declaration, targets: tuple[Request, ...]) -> Function:
    """Return a function with its specs, shardings and static values read from the nodes."""
    check_function(declared, targets)
    in_shardings, out_shardings = _shardings(declared)
    read: dict[str, Any] = {"in_shardings": in_shardings, "out_shardings": out_shardings}
    signatures = [_signature(each, targets) for each in declared.each_signature()]
    if declared.model.signatures:
        pairs = zip(declared.model.signatures, signatures, strict=True)
        read["signatures"] = tuple(spec.model_copy(update=found) for spec, found in pairs)
    else:
        read |= signatures[0]
    return declared.model.model_copy(
        update={key: value for key, value in read.items() if key in declared.model.model_fields_set}
    )


def _signature(declared: Declaration, targets: tuple[Request, ...]) -> dict[str, Any]:
    """Return the specs and static values of one signature; report what is wrong with them."""
    check_signature(declared, targets)
    args, kwargs = _arguments(declared)
    statics = read_statics(declared)
    check_pads(declared, (*args, *kwargs), targets)
    return {
        "args": tuple({name: spec} for name, spec in args),
        "kwargs": dict(kwargs),
        "static": statics,
    }


def _arguments(declared: Declaration) -> tuple[Named, Named]:
    """Return the specs of args and kwargs; check the dims against them."""
    dims_known = "dims" not in declared.broken
    dims = declared.model.dim_names if dims_known else None
    # Static arguments may be given by position, too.
    named = tuple(key for key in declared.model.static if isinstance(key, str))
    statics = named if "static" not in declared.broken else None
    reader = SpecReader(declared.add, dims, statics)
    args = tuple(
        (str(key.value), reader.read(node, ("args", key.value)))
        for key, node in _arg_nodes(declared)
    )
    kwargs = tuple(
        (str(key.value), reader.read(node, ("kwargs", key.value)))
        for key, node in declared.entries("kwargs")
    )
    if dims_known:
        check_dims(declared)
        if reader.is_whole and not declared.broken.intersection(("args", "kwargs")):
            check_used(declared, reader.used)
    return args, kwargs


def _arg_nodes(declared: Declaration) -> list[tuple[ScalarNode, Node]]:
    node = declared.node("args")
    items = () if node is None or isinstance(node, ScalarNode | MapNode) else node.items
    maps = [item for item in items if isinstance(item, MapNode) and len(item.entries) == 1]
    return [item.entries[0] for item in maps]


def _shardings(declared: Declaration) -> tuple[dict[str, Sharding], Sharding]:
    known = declared.model.mesh if "mesh" not in declared.broken and declared.model.mesh else None
    reader = ShardingReader(declared.add, known)
    inputs = {
        str(key.value): reader.read(node, ("in_shardings", key.value))
        for key, node in declared.entries("in_shardings")
    }
    out = declared.node("out_shardings")
    return inputs, reader.read(out, ("out_shardings",)) if out else None


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
