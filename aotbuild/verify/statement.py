"""The in-toto statement over a package's index, its wheel and its locks.

`aotbuild sign --sigstore` has Sigstore sign it, and `verify --identity` reads it from a bundle that
the library has verified. The statement names files by their SHA-256, so any tool that reads in-toto
statements can compare them. Nothing here knows Sigstore, or imports its library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.errors import AotbuildError, UntrustedPackage
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, Index
from aotbuild.format.layout import home_of
from aotbuild.format.sources import file_digest
from aotbuild.format.values import cut

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://github.com/aotbuild/aotbuild/attestation/package/v1"
SUFFIX = ".sigstore.json"
_CHANGED = "Do not use the package: it is not the one that was signed. Get it again."
_OTHER = "Give the bundle that `aotbuild sign --sigstore` wrote for this package."
_LONGEST = 200


@dataclass(frozen=True)
class Subject:
    """A file that a statement is about: its name, and its SHA-256 in hexadecimal digits."""

    name: str
    sha256: str

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel."""
        return self.name.endswith(".whl")

    def __str__(self) -> str:
        return f"{self.name} sha256:{self.sha256}"

    def to_json(self) -> dict[str, Any]:
        """Return it as a statement has it."""
        return {"name": self.name, "digest": {"sha256": self.sha256}}


def bundle_path(place: str) -> Path:
    """Return where the bundle of a wheel or an `_aot` folder is, by default."""
    return Path(f"{place}{SUFFIX}")


def subjects_of(path: str, index: Index, data: bytes, locks: Iterable[Path]) -> list[Subject]:
    """Return what there is to sign: the wheel if `path` is one, the index, and the locks.

    `data` holds the bytes of the index. Raises OSError if a file cannot be read.
    """
    home = (home_of(index.header) or "").replace(".", "/")
    name = f"{home}/{FOLDER_NAME}/{INDEX_NAME}".removeprefix("/")
    wheels = [Path(path)] if path.endswith(".whl") else []
    return [*map(_of_file, wheels), Subject(name, sha256_hex(data)), *map(_of_file, locks)]


def make_statement(index: Index, subjects: Sequence[Subject]) -> bytes:
    """Return the statement that is signed."""
    document = {
        "_type": STATEMENT,
        "subject": [subject.to_json() for subject in subjects],
        "predicateType": PREDICATE,
        "predicate": {"package": home_of(index.header), "digest": index.digest},
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def check_statement(
    place: str, payload_type: str, payload: bytes, found: Sequence[Subject]
) -> tuple[str, ...]:
    """Raise UntrustedPackage unless a signed statement is about all that was found here.

    `found` is what `subjects_of` returns. A statement that names a wheel is about that wheel; one
    that names none was made of an `_aot` folder, and may be that of any wheel with this index.
    Returns the names of what was compared.
    """
    stated = _read(place, payload_type, payload)
    names_wheel = any(subject.is_wheel for subject in stated)
    compared = [subject for subject in found if names_wheel or not subject.is_wheel]
    for subject in compared:
        same_kind = [each for each in stated if each.is_wheel == subject.is_wheel]
        if subject.sha256 not in {each.sha256 for each in same_kind}:
            expected = f"one of the files that were signed: {'; '.join(map(str, same_kind))}"
            raise UntrustedPackage(place, expected, str(subject), _CHANGED)
    return tuple(subject.name for subject in compared)


def _of_file(path: Path) -> Subject:
    return Subject(path.name, file_digest(path))


def _read(place: str, payload_type: str, payload: bytes) -> list[Subject]:
    if payload_type != PAYLOAD_TYPE:
        raise _malformed(place, f"a payload of type {PAYLOAD_TYPE}", payload_type)
    try:
        document = json.loads(payload)
        kind = document["_type"], document["predicateType"]
        listed = [(each["name"], each["digest"]["sha256"]) for each in document["subject"]]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise _malformed(place, "an in-toto statement", f"{type(err).__name__}: {err}") from err
    if kind != (STATEMENT, PREDICATE):
        raise _malformed(
            place, f"a statement {STATEMENT} of {PREDICATE}", " of ".join(map(str, kind))
        )
    return [Subject(str(name), str(digest)) for name, digest in listed]


def _malformed(place: str, expected: str, found: str) -> AotbuildError:
    return UntrustedPackage(place, expected, cut(found, _LONGEST), _OTHER)
