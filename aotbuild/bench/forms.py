"""What is measured: each executable that may run here, and the other forms of its function.

==========  ======================================================================================
`wheel`     the executable of the package
`portable`  the portable form of the same signature, compiled by the process that measures
`jit`       the source under `jax.jit`, traced and compiled by the process that measures
`old`       the executable of another package with the same function, signature and target
==========  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aotbuild.spec.record import Record
from aotbuild.verify.jobs import Job

WHEEL, PORTABLE, JIT, OLD = "wheel", "portable", "jit", "old"


@dataclass(frozen=True)
class Package:
    """An `_aot` folder and its records."""

    folder: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Subject:
    """An executable of the package, and for each form what the process that measures it gets.

    `missing` says why there is no such form.
    """

    record: Record
    forms: dict[str, Job]
    missing: dict[str, str]

    def __str__(self) -> str:
        return str(self.record)


def subjects(
    package: Package, old: Package | None = None, functions: Sequence[str] = ()
) -> list[Subject]:
    """Return the executables of a package, or of some of its functions."""
    native = [r for r in package.records if not r.target.is_portable]
    chosen = [r for r in native if not functions or r.function in functions]
    return [_subject(record, package, old) for record in chosen]


def _subject(record: Record, package: Package, old: Package | None) -> Subject:
    forms = {WHEEL: Job(package.folder, record), JIT: Job(package.folder, record)}
    missing = {}
    portable = _portable_of(record, package.records)
    if portable is None:
        missing[PORTABLE] = "the package has no portable form of this signature"
    else:
        forms[PORTABLE] = Job(package.folder, portable)
    if old is not None:
        before = next((r for r in old.records if _identity(r) == _identity(record)), None)
        if before is None:
            missing[OLD] = "the other package has no executable of this signature and target"
        else:
            forms[OLD] = Job(old.folder, before)
    return Subject(record, forms, missing)


def _portable_of(record: Record, records: Iterable[Record]) -> Record | None:
    """Return the portable form of a record's signature, or one with symbolic dims of its tree."""
    found = [r for r in records if r.target.is_portable and r.function == record.function]
    exact = [r for r in found if r.signature.key() == record.signature.key()]
    symbolic = [
        r
        for r in found
        if "symbolic_leaves" in r.provenance
        and r.signature.tree == record.signature.tree
        and r.signature.statics == record.signature.statics
    ]
    return next(iter([*exact, *symbolic]), None)


def _identity(record: Record) -> tuple[str, str, str]:
    return record.function, record.signature.key(), str(record.target)
