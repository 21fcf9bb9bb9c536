"""Diagnosis of a package on a host: what runs for each signature, and why others are refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from aotbuild.platforms.base import Host
from aotbuild.runtime.companions import Companion, open_parts
from aotbuild.runtime.locate import locate, package_name
from aotbuild.runtime.select import Verdict, select
from aotbuild.runtime.trust import open_trusted
from aotbuild.spec.index import Index
from aotbuild.spec.record import Record

# As in runtime.kernel; a test compares them.
SUMMARY = "no executable may run here"


@dataclass(frozen=True)
class SignatureDiagnosis:
    """One signature of one function: the verdicts on its records, best first."""

    function: str
    signature: str
    verdicts: tuple[Verdict, ...]

    @property
    def chosen(self) -> Record | None:
        """The record that a call would run, or None."""
        best = self.verdicts[0]
        return best.record if best.fits else None


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a package, and its companions, installed or not."""

    place: str
    package: str | None
    fallback: str | None
    signatures: tuple[SignatureDiagnosis, ...]
    companions: tuple[Companion, ...] = ()

    @property
    def unusable(self) -> tuple[SignatureDiagnosis, ...]:
        """The signatures without a usable executable."""
        return tuple(item for item in self.signatures if item.chosen is None)


def diagnose(place: str | os.PathLike[str], host: Host) -> Diagnosis:
    """Judge every record of a place, from its index and those of its companions.

    Raises as `load`, also if AOTBUILD_TRUST demands a signature that is missing.
    """
    source = locate(place)
    try:
        index = open_trusted(source, None, package_name(place))
        parts = open_parts(source, index, None, package_name(place))
        signatures = tuple(_signatures(parts.index, host))
    finally:
        source.close()
    header = parts.index.header
    package, fallback = header.get("package"), header.get("fallback")
    return Diagnosis(source.place, package, fallback, signatures, parts.companions)


def _signatures(index: Index, host: Host) -> Iterator[SignatureDiagnosis]:
    for name in sorted(function.name for function in index.functions()):
        groups: dict[str, list[Record]] = {}
        for record in index.records(name):
            groups.setdefault(record.signature.key(), []).append(record)
        found = [
            SignatureDiagnosis(
                name, str(records[0]).removesuffix(f" {records[0].target}"), select(records, host)
            )
            for records in groups.values()
        ]
        yield from sorted(found, key=lambda item: item.signature)
