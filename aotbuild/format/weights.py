"""Weights apart from code: a companion that holds the hoisted constants of a package, by name.

The header of the base has the digest of all names and avals under `WEIGHTS`. The companion has the
constants there: `[name, aval, blob]` each. Any companion whose constants have that digest fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_json, sha256_hex, text
from aotbuild.format.record import Blob, Constant, Record
from aotbuild.format.record_json import blob_from_json, blob_to_json

# The name of the part, and the key in the index's header.
WEIGHTS = "weights"


def interface_of(constants: Iterable[Constant]) -> str:
    """Return the digest of the names and avals of constants."""
    pairs = sorted({(constant.name, str(constant.aval)) for constant in constants})
    return sha256_hex(canonical_json([list(pair) for pair in pairs]))


def constants_of_records(records: Iterable[Record]) -> tuple[Constant, ...]:
    """Return the constants of records, each name and aval once, sorted."""
    found = {(c.name, str(c.aval)): c for record in records for c in record.calling.constants}
    return tuple(constant for _, constant in sorted(found.items()))


def to_header(constants: Iterable[Constant]) -> list[Any]:
    """Return the entry of a companion's header."""
    return [[c.name, str(c.aval), blob_to_json(c.blob)] for c in constants]


def from_header(header: Mapping[str, Any]) -> tuple[Constant, ...]:
    """Return the constants that a companion holds; none for any other index.

    ValueError if the entry is malformed.
    """
    found = header.get(WEIGHTS)
    if not isinstance(found, list):
        return ()
    try:
        return tuple(
            Constant(Aval.parse(text(aval)), blob_from_json(blob), text(name))
            for name, aval, blob in found
        )
    except (KeyError, TypeError, ValueError) as err:
        msg = f"header: {WEIGHTS}: expected [name, aval, blob] for each constant: {err}"
        raise ValueError(msg) from err


def expected_interface(header: Mapping[str, Any]) -> str | None:
    """Return the digest that the weights of a base must have; None if it has its own constants."""
    found = header.get(WEIGHTS)
    return found if isinstance(found, str) else None


def with_weights(record: Record, weights: Mapping[tuple[str, str], Blob]) -> Record:
    """Return a record whose constants are those of a companion, by name and aval."""
    calling = record.calling
    if not calling.constants:
        return record
    constants = tuple(
        Constant(c.aval, weights.get((c.name, str(c.aval)), c.blob), c.name)
        for c in calling.constants
    )
    own = {**vars(calling), "constants": constants}
    return Record(**{**vars(record), "calling": type(calling)(**own)})
