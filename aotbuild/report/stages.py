"""Choosing the kept stage of an executable by names, and the error if none fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aotbuild.errors import StageNotKept
from aotbuild.format.layout import HEADER_KEY, STAGES, WHEEL
from aotbuild.format.record import Blob, Record
from aotbuild.report.facts import PackageFacts, SignatureFacts, column_of, short_label
from aotbuild.report.words import shown
from aotbuild.runtime.source import Source
from aotbuild.runtime.stages import read_stage

# Limits of what a page shows, in bytes: of one stage, and of all together.
_LONGEST = 100_000
_PAGE = 4_000_000


@dataclass(frozen=True)
class Candidate:
    """One executable or portable form, and the signature it belongs to."""

    signature: SignatureFacts
    record: Record

    @property
    def names(self) -> tuple[str, str, str, str]:
        """Its function, signature, target and jaxlib, as the options of the command take them."""
        record = self.record
        target, jaxlib = shown(str(record.target)), shown(jaxlib_of(record))
        return shown(record.function), short_label(self.signature), target, jaxlib

    def stage(self, name: str) -> Blob | None:
        """Return the blob of a stage, or None if it was not kept."""
        return dict(self.record.stages).get(name)


def candidates(
    facts: PackageFacts,
    signature: str | None = None,
    target: str | None = None,
    jaxlib: str | None = None,
) -> list[Candidate]:
    """Return the candidates that match the names, in the order of the package.

    `signature` is a label, the text between its parentheses, or a key; `target` is a target, a
    target without the number of devices, or a platform; `jaxlib` the version that made it.
    """
    return [
        c
        for c in _all(facts)
        if _is_signature(c, signature)
        and _is_target(c, target)
        and jaxlib in (None, jaxlib_of(c.record))
    ]


def jaxlib_of(record: Record) -> str:
    """Return the version of jaxlib that an executable or a portable form was made by."""
    return str(record.requires.jaxlib or record.provenance.get("jaxlib", "-"))


def different(found: list[Candidate], stage: str) -> list[Candidate]:
    """Return the candidates that have a stage, one for each distinct text.

    Raises StageNotKept if none has it.
    """
    having = {blob: c for c in reversed(found) if (blob := c.stage(stage)) is not None}
    if not having:
        raise _not_kept(found, stage)
    return list(reversed(having.values()))


def page_texts(facts: PackageFacts, source: Source) -> dict[Blob, str]:
    """Return the kept stages in a package that are small enough for a page, by their blobs.

    Raises DamagedBlob if one is not what was built.
    """
    if facts.header.get(HEADER_KEY) != WHEEL:
        return {}
    blobs = {blob for record in facts.records for _, blob in record.stages if blob.size <= _LONGEST}
    ordered = sorted(blobs, key=lambda blob: (blob.size, blob.sha256))
    texts, room = {}, _PAGE
    for blob in ordered:
        room -= blob.size
        if room < 0:
            break
        texts[blob] = read_stage(source, blob).decode("utf-8", "replace")
    return texts


def _all(facts: PackageFacts) -> Iterator[Candidate]:
    for function in facts.functions:
        for signature in function.signatures:
            for record in signature.records:
                yield Candidate(signature, record)


def _is_signature(candidate: Candidate, text: str | None) -> bool:
    signature = candidate.signature
    return text is None or text in (signature.label, short_label(signature), signature.key)


def _is_target(candidate: Candidate, text: str | None) -> bool:
    target = candidate.record.target
    return text is None or text in (str(target), column_of(target), target.platform)


def _not_kept(found: list[Candidate], stage: str) -> StageNotKept:
    kept = [name for name in STAGES if any(c.stage(name) for c in found)]
    if stage in ("hlo", "cost", "memory") and all(c.record.target.is_portable for c in found):
        remedy = (
            "A portable form is compiled where it runs, so only its jaxpr and stablehlo can be "
            "kept; ask for an executable with --target."
        )
    else:
        wanted = [name for name in STAGES if name in (*kept, stage)]
        remedy = f"Write keep: [{', '.join(wanted)}] in the manifest, and build again."
    functions = dict.fromkeys(shown(c.record.function) for c in found)
    subject = shown(str(found[0].record)) if len(found) == 1 else ", ".join(functions)
    return StageNotKept(subject, stage, kept, remedy)
