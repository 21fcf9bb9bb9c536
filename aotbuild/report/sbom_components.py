"""The components of an SBOM and the edges between them. Needs cyclonedx-python-lib to be imported.

Names come from the wheel, so they are made printable and short. References between components are
digests, never names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.model.tool import ToolRepository
from packageurl import PackageURL

from aotbuild.format.record import Blob, Constant, Record
from aotbuild.format.record_json import record_digest
from aotbuild.report.facts import (
    PackageFacts,
    constants,
    label_of,
    provenance_items,
)
from aotbuild.report.words import shown
from aotbuild.runtime.distribution import Distribution, folder_in_wheel

_TOOLCHAIN = ("aotbuild", "jax", "jaxlib")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99}")
# An absolute path in a flag or an option, as in `--xla_dump_to=/tmp/x`.
_PATH = re.compile(r"(?<![\w./-])~?/[^\s,;:\"']+")
_MAX_VALUE = 20_000  # characters; flags are longer than names, and a wheel may be anyone's


def make_bom(facts: PackageFacts, digest: str, distribution: Distribution | None) -> Bom:
    """Return the bill of a package; `digest` is the SHA-256 of its index."""
    package = _package(facts, digest, distribution)
    tools = _libraries(facts)
    data = {c.blob.sha256: _constant(facts, c) for c, _ in constants(facts)}
    others = _other_data(facts)
    executables = {_ref(record): record for record in facts.records}
    bom = Bom(
        serial_number=uuid5(NAMESPACE_URL, f"aotbuild:{digest}:{package.name}:{package.version}"),
        metadata=BomMetaData(
            component=package,
            lifecycles=[PredefinedLifecycle(LifecyclePhase.BUILD)],
            tools=ToolRepository(components=[_writer()]),
        ),
        components=[
            *(_executable(facts, ref, record) for ref, record in executables.items()),
            *data.values(),
            *others,
            *tools.values(),
        ],
    )
    edges = {ref: _needs(facts, record, tools, data) for ref, record in executables.items()}
    edges[str(package.bom_ref)] = {*edges, *(str(c.bom_ref) for c in (*tools.values(), *others))}
    bom.dependencies = [_dependency(ref, needed) for ref, needed in edges.items()]
    return bom


def _package(facts: PackageFacts, digest: str, wheel: Distribution | None) -> Component:
    fallback = facts.header.get("fallback", "")
    known = {"index": digest, "package": facts.name, "fallback": fallback}
    return Component(
        type=ComponentType.LIBRARY,
        name=shown(wheel.name) if wheel else facts.name,
        version=shown(wheel.version) if wheel else None,
        purl=_purl(wheel.name, wheel.version) if wheel else None,
        bom_ref=f"package:{facts.name}",
        properties=_properties(known),
    )


def _executable(facts: PackageFacts, ref: str, record: Record) -> Component:
    known = {
        "function": record.function,
        "signature": record.signature.key(),
        "target": str(record.target),
        "record": ref.partition(":")[2],
        **_blob_properties(facts, record.blob),
    }
    kept = {f"stage:{name}": blob.sha256 for name, blob in record.stages}
    built = {
        # A path identifies a machine.
        f"build:{name}": _PATH.sub("<path>", shown(value, _MAX_VALUE))
        for name, value in provenance_items(record)
    }
    return Component(
        type=ComponentType.FILE,
        name=f"{shown(label_of(record))} {shown(str(record.target))}",
        bom_ref=ref,
        hashes=[_sha256(record.blob)],
        properties=_properties({**known, **kept, **built}),
    )


def _constant(facts: PackageFacts, constant: Constant) -> Component:
    known = {"aval": str(constant.aval)}
    return _data(facts, constant.blob, "constant", f"constant {constant.aval}", known)


def _other_data(facts: PackageFacts) -> list[Component]:
    """Return the parts of the package that no call needs: data of checks, and kept stages."""
    needed = {blob for record in facts.records for blob in record.needed_blobs()}
    others = [blob for _, blob in sorted(facts.blobs.items()) if blob not in needed]
    return [
        _data(facts, b, f"data:{b.kind}", f"{shown(b.kind)} {b.sha256[:12]}", {}) for b in others
    ]


def _data(
    facts: PackageFacts, blob: Blob, role: str, name: str, known: dict[str, Any]
) -> Component:
    return Component(
        type=ComponentType.DATA,
        name=name,
        bom_ref=f"{role}:{blob.sha256}",
        hashes=[_sha256(blob)],
        properties=_properties({**known, **_blob_properties(facts, blob)}),
    )


def _libraries(facts: PackageFacts) -> dict[tuple[str, str], Component]:
    """Return every toolchain library once, by name and version."""
    found = {pair for record in facts.records for pair in _toolchain(facts, record)}
    found |= {(name, version) for name in _TOOLCHAIN for version in _stated(facts, name)}
    return {pair: _library(*pair) for pair in sorted(found)}


def _library(name: str, version: str) -> Component:
    purl = _purl(name, version)
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        purl=purl,
        bom_ref=str(purl) if purl else f"library:{name}:{version}",
    )


def _writer() -> Component:
    """Return the aotbuild that writes the document; a different version may have compiled."""
    name, version = "aotbuild", metadata.version("aotbuild")
    # Without an explicit reference the library makes a random one.
    return Component(name=name, version=version, bom_ref="writer", purl=_purl(name, version))


def _toolchain(facts: PackageFacts, record: Record) -> Iterator[tuple[str, str]]:
    """Yield the name and version of the libraries that compiled a record."""
    for name in _TOOLCHAIN:
        own = record.provenance.get(name)
        yield from ((name, v) for v in ([shown(own)] if own else _stated(facts, name)))
    compilers = record.provenance.get("compilers")
    if isinstance(compilers, dict):
        yield from ((shown(name), shown(version)) for name, version in sorted(compilers.items()))


def _stated(facts: PackageFacts, name: str) -> list[str]:
    """Return all versions of a library that the header names."""
    return [shown(version) for version in str(facts.header.get(name, "?")).split(", ")]


def _needs(
    facts: PackageFacts,
    record: Record,
    tools: dict[tuple[str, str], Component],
    data: dict[str, Component],
) -> set[str]:
    """Return what an executable depends on: its toolchain and its constants."""
    needed = {str(tools[pair].bom_ref) for pair in _toolchain(facts, record)}
    return needed | {str(data[c.blob.sha256].bom_ref) for c in record.calling.constants}


def _dependency(ref: str, needed: Iterable[str]) -> Dependency:
    return Dependency(BomRef(ref), [Dependency(BomRef(other)) for other in sorted(needed)])


def _ref(record: Record) -> str:
    """Return the reference of a record, which ends with the digest of its object in the index."""
    return f"record:{record_digest(record)}"


def _blob_properties(facts: PackageFacts, blob: Blob) -> dict[str, Any]:
    path = f"{folder_in_wheel(facts.header)}/{blob.path}"
    return {"kind": blob.kind, "size": blob.size, "path": path}


def _sha256(blob: Blob) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=blob.sha256)


def _properties(values: dict[str, Any]) -> list[Property]:
    return [
        Property(name=f"aotbuild:{shown(name)}", value=shown(value, _MAX_VALUE))
        for name, value in values.items()
    ]


def _purl(name: str, version: str) -> PackageURL | None:
    """Return the package URL of a distribution, or None if its name or version is not valid."""
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
        return None
    return PackageURL("pypi", name=re.sub(r"[-_.]+", "-", name).lower(), version=version)
