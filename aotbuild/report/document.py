"""The JSON document of a package."""

from __future__ import annotations

from typing import Any

from aotbuild.format.index import FORMAT
from aotbuild.format.padding import Padding
from aotbuild.format.record import Blob, Constant, Golden, Record, Requirements
from aotbuild.format.record_json import requirements_to_json
from aotbuild.format.signature import Function
from aotbuild.report.facts import (
    FunctionFacts,
    PackageFacts,
    SignatureFacts,
    compared_places,
    constants,
    targets,
    total_size,
)
from aotbuild.report.words import (
    bytes_accessed,
    flops,
    memory_of_device,
    peak_memory,
    plain,
    plural,
)

HEADER_NAMES = ("package", "aotbuild", "jax", "jaxlib", "fallback")


def package_document(facts: PackageFacts) -> dict[str, Any]:
    """Return all facts of a package."""
    return {
        **place_document(facts),
        "functions": [_function(function) for function in facts.functions],
        "constants": [
            {**_constant(constant), "executables": count} for constant, count in constants(facts)
        ],
    }


def place_document(facts: PackageFacts) -> dict[str, Any]:
    """Return the identity and the size of a package, without its functions."""
    header = {name: plain(facts.header.get(name)) for name in HEADER_NAMES}
    distribution = facts.distribution
    return {
        "place": facts.place,
        **header,
        "format": FORMAT,
        "distribution": distribution and vars(distribution),
        "digest": facts.digest,
        "totals": totals(facts),
    }


def totals(facts: PackageFacts) -> dict[str, Any]:
    """Return counts, and sizes in bytes."""
    records = facts.records
    blobs = facts.blobs
    return {
        "functions": len(facts.functions),
        "signatures": facts.signature_count,
        "executables": len(records),
        "targets": targets(facts),
        "blobs": len(blobs),
        "constants": len(constants(facts)),
        "index_size": facts.index_size,
        "blob_size": sum(blob.size for blob in blobs.values()),
        "size": total_size(facts),
    }


def parameters(function: Function) -> list[dict[str, Any]]:
    """Return the parameters of a function in the order of a call."""
    statics = {static.name: static for static in function.statics}
    names = list(dict.fromkeys((*function.positional, *function.keywords, *statics)))
    # Sets: an index that was changed may have a hundred thousand names.
    positional, donated = {*function.positional}, {*function.donate}
    found = []
    for name in names:
        item = {
            "name": name,
            "kind": "positional" if name in positional else "keyword",
            "static": name in statics,
            "donated": name in donated,
        }
        if name in statics and statics[name].has_default:
            item["default"] = plain(statics[name].default)
        found.append(item)
    return found


def call_text(function: Function) -> str:
    """Return the call of a function as text: `model:apply(params, tokens, *, scale, causal=)`."""
    words, starred = [], False
    for item in parameters(function):
        if item["kind"] == "keyword" and not starred:
            words.append("*")
            starred = True
        words.append(item["name"] + ("=" if item["static"] else ""))
    return f"{function.call}({', '.join(words)})"


def pad_text(function: Function) -> str:
    """Return how calls are padded, as `batch with 0.0 to 1, 8`; empty if they are not."""
    if function.pad is None:
        return ""
    pad = function.pad
    dims = (f"{dim.name} with {dim.value}" for dim in pad.dims)
    sizes = ("x".join(map(str, bucket)) for bucket in pad.buckets)
    return f"{', '.join(dims)} to {', '.join(sizes)}"


def requirement_words(requires: Requirements) -> list[str]:
    """Return what a host needs besides the platform: `jaxlib 0.10.2`, `isa x86-64-v3`."""
    level = " + ".join(filter(None, (requires.isa, *requires.features)))
    words = [
        f"isa {level}" if level else "",
        *requires.device_kinds,
        f"capability {requires.capability}" if requires.capability is not None else "",
        f"topology {requires.topology}" if requires.topology is not None else "",
        f"jaxlib {requires.jaxlib}" if requires.jaxlib is not None else "",
        " ".join(requires.plugin or ()),
        *(f"{name} {version} or newer" for name, version in requires.lowest_versions),
        plural(requires.devices, "device") if requires.devices != 1 else "",
        f"{requires.processes} processes" if requires.processes != 1 else "",
        "x64" if requires.x64 else "",
        *(f"{call.target} ({call.provider})" for call in requires.custom_calls),
    ]
    return [word for word in words if word]


def requirements_document(requires: Requirements) -> dict[str, Any]:
    """Return every requirement as data."""
    plugin = requires.plugin
    return {
        **requirements_to_json(requires),
        "plugin": None if plugin is None else {"name": plugin[0], "version": plugin[1]},
        "custom_calls": [vars(call) for call in requires.custom_calls],
    }


def _function(facts: FunctionFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "call": facts.function.call,
        "parameters": parameters(facts.function),
        "wrap": facts.function.wrap or None,
        "pad": _pad(facts.function.pad),
        "ignored": [place for place, *_ in facts.function.ignored],
        "compared": compared_places(facts.function),
        "signatures": [_signature(signature) for signature in facts.signatures],
    }


def _pad(pad: Padding | None) -> dict[str, Any] | None:
    if pad is None:
        return None
    dims = [{"name": d.name, "value": plain(d.value)} for d in pad.dims]
    return {"dims": dims, "buckets": [list(bucket) for bucket in pad.buckets]}


def _signature(signature: SignatureFacts) -> dict[str, Any]:
    return {
        "label": signature.label,
        "key": signature.key,
        "dims": plain(signature.dims),
        "inputs": list(signature.inputs),
        "outputs": list(signature.outputs),
        "arguments": _arguments(signature),
        "statics": {str(name): plain(value) for name, value in signature.statics},
        "executables": [_executable(record) for record in signature.records],
    }


def _arguments(signature: SignatureFacts) -> list[dict[str, Any]]:
    named = zip(signature.input_names, signature.inputs, strict=False)
    return [
        {"name": name, "aval": aval, "donated": index in signature.donated}
        for index, (name, aval) in enumerate(named)
    ]


def _executable(record: Record) -> dict[str, Any]:
    requires = record.requires
    return {
        "target": str(record.target),
        **_blob(record.blob),
        "flops": flops(record),
        "bytes_accessed": bytes_accessed(record),
        "peak_memory": peak_memory(record),
        "device_memory": memory_of_device(record),
        "analysis": plain(record.analysis),
        "requires": requirements_document(requires),
        "mesh": dict(record.calling.mesh),
        "constants": [_constant(constant) for constant in record.calling.constants],
        "golden": _golden(record.golden),
        "provenance": plain(record.provenance),
    }


def _blob(blob: Blob) -> dict[str, Any]:
    return {"kind": blob.kind, "sha256": blob.sha256, "size": blob.size}


def _golden(golden: Golden | None) -> dict[str, Any] | None:
    if golden is None:
        return None
    return {
        "given_leaves": [leaf for leaf, _ in golden.inputs],
        "outputs": _blob(golden.outputs),
        "rtol": golden.rtol,
        "atol": golden.atol,
    }


def _constant(constant: Constant) -> dict[str, Any]:
    return {"aval": str(constant.aval), **_blob(constant.blob)}
