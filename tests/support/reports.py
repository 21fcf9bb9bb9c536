"""Packages for the reports' tests: indexes written straight from records, without building."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import write_index
from aotbuild.format.record import Blob, Calling, Constant, CustomCall, Record, Requirements
from aotbuild.format.signature import Function, Signature, Static
from aotbuild.format.target import Target
from aotbuild.report.facts import PackageFacts, read_facts
from aotbuild.runtime.checked_blobs import DirectorySource

HEADER = {
    "aotbuild": "0.1.0",
    "fallback": "none",
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "package": "pack",
}
ANALYSIS = {
    "flops": 1e6,
    "bytes_accessed": 4096.0,
    "argument_bytes": 1000,
    "output_bytes": 200,
    "temp_bytes": 30,
    "alias_bytes": 100,
}
WEIGHTS = b"weights" * 10
# What blobs have in them, by their digests.
_BYTES: dict[str, bytes] = {}


def make_function(name: str = "f", **changes: Any) -> Function:
    fields: dict[str, Any] = {
        "name": name,
        "call": "pack.m:f",
        "positional": ("x", "k"),
        "dynamic": ("x",),
        "keywords": ("scale",),
        "statics": (Static("k", 3), Static("causal")),
        "donate": ("x",),
    }
    return Function(**{**fields, **changes})


def make_record(
    name: str = "f",
    batch: int = 1,
    target: str = "cpu:x86-64-v3:1",
    *,
    data: bytes | None = None,
    label: str | None = None,
    constants: bool = False,
    analysis: dict[str, Any] | None = None,
    provenance: dict[str, Any] | None = None,
    jaxlib: str | None = "0.10.2",
    width: int = 2,
    calls: tuple[str, ...] = (),
    requires: dict[str, Any] | None = None,
) -> Record:
    where = Target.parse(target)
    mesh = (("d", where.devices),) if where.devices > 1 else ()
    content = data if data is not None else f"{name}{batch}{target}".encode()
    kind = "stablehlo" if where.is_portable else "pjrt"
    constant = Constant(Aval((10, 7), "uint8"), make_blob(WEIGHTS, "safetensors"))
    aval = Aval((batch, width), "float32")
    return Record(
        function=name,
        signature=Signature(["tuple", ["tuple", "*"], ["dict", []]], (aval,), (("k", 3),)),
        target=where,
        blob=make_blob(content, kind),
        requires=Requirements(
            where.platforms,
            devices=where.devices,
            processes=where.processes,
            isa=where.detail if where.platform == "cpu" else None,
            jaxlib=None if where.is_portable else jaxlib,
            custom_calls=tuple(CustomCall(call, "user") for call in calls),
            **(requires or {}),
        ),
        calling=Calling(
            name,
            constants=(constant,) if constants else (),
            kept=(0,),
            donated=(),
            in_specs=(("d", None),) if mesh else (),
            outputs=(aval,),
            out_specs=(("d", None),) if mesh else (),
            out_tree="*",
            mesh=mesh,
        ),
        analysis={} if where.is_portable else (ANALYSIS if analysis is None else analysis),
        provenance={
            "label": f"{name}(batch={batch})" if label is None else label,
            "config": {"jax_enable_x64": False},
            **(provenance or {}),
        },
    )


def make_blob(data: bytes, kind: str = "pjrt") -> Blob:
    blob = Blob(kind, sha256_hex(data), len(data))
    _BYTES[blob.sha256] = data
    return blob


def write_package(
    root: Path,
    functions: list[Function],
    records: list[Record],
    header: dict[str, Any] | None = None,
) -> Path:
    """Write an `_aot` folder: an index, and the blobs of the records."""
    folder = root / "_aot"
    (folder / "blobs").mkdir(parents=True)
    for blob in (blob for record in records for blob in record.blobs()):
        (folder / blob.path).write_bytes(_BYTES[blob.sha256])
    (folder / "index").write_bytes(write_index(header or HEADER, functions, records))
    return folder


def facts_of(
    root: Path,
    functions: list[Function],
    records: list[Record],
    header: dict[str, Any] | None = None,
) -> PackageFacts:
    return read_facts(DirectorySource(write_package(root, functions, records, header)))
