"""Shards: one of several shares of a package, each built alone, in the header of the index.

::

    "shard": {"number": 3, "of": 8, "plan": <SHA-256>, "split": <SHA-256>, "results": <SHA-256>}

`plan` is the digest of what all shards build together, and `split` that of which shard has which
unit: shards that belong together have both in common. `results` is the digest of the file `shard`
beside the index, from which `aotbuild merge` makes the index of the whole package. A whole package
has neither the key nor the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aotbuild.errors import PlanError
from aotbuild.format.values import cut

# The key of the index's header.
SHARD = "shard"
# The file beside the index.
SHARD_NAME = "shard"
SHARD_VARIABLE = "AOTBUILD_SHARD"
_HEX = frozenset("0123456789abcdef")
_TEXT = re.compile("([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
# The most shards of a package: a Kubernetes job has no more than 100,000 indexes.
_MOST = 100_000


@dataclass(frozen=True)
class Shard:
    """The `number`th of so many shards, counted from 1; as text `3/8`."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read what `str` writes; ValueError for anything else."""
        if found := _TEXT.fullmatch(text):
            shard = cls(int(found[1]), int(found[2]))
            if shard.number <= shard.of <= _MOST:
                return shard
        msg = f"expected a shard and their number, as 3/8, counted from 1; found {cut(text, 40)!r}"
        raise ValueError(msg)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def chosen_shard(environment: Mapping[str, str]) -> Shard | None:
    """Return the shard that AOTBUILD_SHARD names, if it is set; PlanError if it is malformed."""
    chosen = environment.get(SHARD_VARIABLE)
    if not chosen:
        return None
    try:
        return Shard.parse(chosen)
    except ValueError as err:
        msg = f"the environment variable {SHARD_VARIABLE}: {err}"
        raise PlanError(msg) from err


@dataclass(frozen=True)
class ShardHeader:
    """What the header of a shard's index says of it."""

    shard: Shard
    plan: str
    split: str
    results: str

    def to_header(self) -> dict[str, Any]:
        """Return what goes into the header of an index."""
        digests = {"plan": self.plan, "split": self.split, "results": self.results}
        return {SHARD: {"number": self.shard.number, "of": self.shard.of, **digests}}


def read_shard(header: Mapping[str, Any]) -> ShardHeader | None:
    """Return which shard a header is of, None for a whole package; ValueError if malformed."""
    if SHARD not in header:
        return None
    found = header[SHARD]
    try:
        number, of = found["number"], found["of"]
        digests = [found[name] for name in ("plan", "split", "results")]
        if all(len(digest) == 64 and _HEX.issuperset(digest) for digest in digests):
            return ShardHeader(Shard.parse(f"{number}/{of}"), *digests)
    except (TypeError, LookupError, ValueError):
        pass
    msg = f"header: {SHARD}: expected a number, and digests, found {cut(repr(found), 200)}"
    raise ValueError(msg)


def shard_note(header: Mapping[str, Any]) -> str | None:
    """Return what tells people that a package is a shard; None if it is whole."""
    if SHARD not in header:
        return None
    try:
        found = read_shard(header)
    except ValueError:  # `aotbuild verify` says what is wrong
        found = None
    which = f"shard {found.shard}" if found else "a shard"
    return f"this is {which} of a build, not the whole package: `aotbuild merge` joins all"
