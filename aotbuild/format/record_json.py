"""Records as JSON. Reading checks types, so a malformed record raises ValueError only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.canonical import (
    canonical_json,
    flag,
    lists,
    mapping,
    optional,
    sha256_hex,
    text,
    tolerance,
    whole,
)
from aotbuild.format.record import (
    Blob,
    Calling,
    Constant,
    CustomCall,
    Golden,
    PartitionSpec,
    Record,
    Requirements,
    Template,
)
from aotbuild.format.signature import Signature
from aotbuild.format.target import Target


def record_to_json(record: Record) -> dict[str, Any]:
    """Return the JSON form of a record; the inverse of `record_from_json`."""
    return {
        "function": record.function,
        "signature": record.signature.to_json(),
        "target": str(record.target),
        "blob": blob_to_json(record.blob),
        "requires": requirements_to_json(record.requires),
        "calling": _calling_to_json(record.calling),
        "analysis": record.analysis,
        "provenance": record.provenance,
        "golden": golden_to_json(record.golden),
    }


def record_digest(record: Record) -> str:
    """Return the SHA-256 of a record's object in the index, which identifies the record."""
    return sha256_hex(canonical_json(record_to_json(record)))


def record_from_json(data: Any) -> Record:
    """Read what `record_to_json` wrote; ValueError for anything else."""
    try:
        return Record(
            function=text(data["function"]),
            signature=Signature.from_json(data["signature"]),
            target=Target.parse(data["target"]),
            blob=blob_from_json(data["blob"]),
            requires=_requirements_from_json(data["requires"]),
            calling=_calling_from_json(data["calling"]),
            analysis=mapping(data["analysis"]),
            provenance=mapping(data["provenance"]),
            golden=golden_from_json(data["golden"]),
        )
    except (KeyError, TypeError, AttributeError, IndexError) as err:
        msg = f"not a record: {type(err).__name__}: {err}"
        raise ValueError(msg) from err


def blob_to_json(blob: Blob) -> list[Any]:
    """Return `[kind, sha256, size]`."""
    return [blob.kind, blob.sha256, blob.size]


def blob_from_json(data: Any) -> Blob:
    """Read `[kind, sha256, size]`; ValueError if one of them is malformed."""
    kind, digest, size = data
    is_digest = len(text(digest)) == 64 and not digest.strip("0123456789abcdef")
    if not is_digest or not text(kind).isalnum() or whole(size) < 0:
        msg = f"not a blob: {data!r}"
        raise ValueError(msg)
    return Blob(kind, digest, size)


def requirements_to_json(requires: Requirements) -> dict[str, Any]:
    """Return the JSON form of requirements."""
    calls = [[call.target, call.provider] for call in requires.custom_calls]
    data = {**vars(requires), "custom_calls": calls}
    return {name: lists(value) for name, value in data.items() if name != "imports" or value}


def _requirements_from_json(data: dict[str, Any]) -> Requirements:
    return Requirements(
        platforms=tuple(map(text, data["platforms"])),
        devices=whole(data["devices"]),
        processes=whole(data["processes"]),
        isa=optional(text, data["isa"]),
        features=tuple(map(text, data["features"])),
        device_kinds=tuple(map(text, data["device_kinds"])),
        capability=optional(text, data["capability"]),
        topology=optional(text, data["topology"]),
        jaxlib=optional(text, data["jaxlib"]),
        plugin=optional(_pair, data["plugin"]),
        cuda=optional(text, data["cuda"]),
        cudnn=optional(text, data["cudnn"]),
        x64=flag(data["x64"]),
        custom_calls=tuple(CustomCall(*_pair(call)) for call in data["custom_calls"]),
        imports=tuple(map(text, data.get("imports", ()))),
    )


def _pair(data: Any) -> tuple[str, str]:
    one, other = data
    return text(one), text(other)


def _calling_to_json(calling: Calling) -> dict[str, Any]:
    data = {
        **vars(calling),
        "constants": [[str(c.aval), blob_to_json(c.blob)] for c in calling.constants],
        "outputs": [str(aval) for aval in calling.outputs],
        "templates": [
            {name: lists(each) for name, each in vars(t).items()} for t in calling.templates
        ],
    }
    rare = ("explicit_axes", "templates")
    return {name: lists(value) for name, value in data.items() if name not in rare or value}


def _calling_from_json(data: dict[str, Any]) -> Calling:
    return Calling(
        name=text(data["name"]),
        constants=tuple(
            Constant(Aval.parse(aval), blob_from_json(blob)) for aval, blob in data["constants"]
        ),
        kept=tuple(map(whole, data["kept"])),
        donated=tuple(map(whole, data["donated"])),
        in_specs=specs_from_json(data["in_specs"]),
        outputs=tuple(map(Aval.parse, data["outputs"])),
        out_specs=specs_from_json(data["out_specs"]),
        out_tree=data["out_tree"],
        mesh=tuple((text(name), whole(size)) for name, size in data["mesh"]),
        explicit_axes=tuple(map(text, data.get("explicit_axes", ()))),
        templates=tuple(map(_template_from_json, data.get("templates", ()))),
    )


def _template_from_json(data: dict[str, Any]) -> Template:
    values = tuple((text(name), value) for name, value in data["values"])
    return Template(text(data["like"]), values, tuple(map(whole, data["root"])))


def golden_to_json(golden: Golden | None) -> dict[str, Any] | None:
    """Return the JSON form of golden outputs; the inverse of `golden_from_json`."""
    if golden is None:
        return None
    return {
        "inputs": [[leaf, blob_to_json(blob)] for leaf, blob in golden.inputs],
        "outputs": blob_to_json(golden.outputs),
        "rtol": golden.rtol,
        "atol": golden.atol,
    }


def golden_from_json(data: dict[str, Any] | None) -> Golden | None:
    """Read what `golden_to_json` wrote."""
    if data is None:
        return None
    return Golden(
        inputs=tuple((whole(leaf), blob_from_json(blob)) for leaf, blob in data["inputs"]),
        outputs=blob_from_json(data["outputs"]),
        rtol=optional(tolerance, data["rtol"]),
        atol=optional(tolerance, data["atol"]),
    )


def specs_to_json(specs: Iterable[PartitionSpec]) -> list[Any]:
    """Return the JSON form of PartitionSpecs; the inverse of `specs_from_json`."""
    return [lists(spec) for spec in specs]


def specs_from_json(data: list[Any]) -> tuple[PartitionSpec, ...]:
    """Read what `specs_to_json` wrote."""
    return tuple(tuple(_axes(axes) for axes in spec) for spec in data)


def _axes(data: Any) -> str | tuple[str, ...] | None:
    if isinstance(data, list):
        return tuple(map(text, data))
    return optional(text, data)
