"""The store: compiled bytes by the key of what went in, shared by all builds of a user.

An entry is one file: the SHA-256 of the rest in hexadecimal, a line of canonical JSON (the facts),
and the bytes. It is written to a temporary file, synced and renamed, so no reader sees half of one;
two builds that write the same entry write the same thing. An entry that is damaged is set aside and
made again. Keys are made of inputs only, never of what came out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.spec.canonical import canonical_json, sha256_hex
from aotbuild.spec.layout import write_whole

VARIABLE = "AOTBUILD_STORE"
_OFF = "off"
_FORMAT = "v1"
_LOG = logging.getLogger("aotbuild")


@dataclass(frozen=True)
class Entry:
    """What was compiled: its bytes, and the facts that only compiling tells (plain JSON)."""

    facts: dict[str, Any]
    data: bytes


@dataclass(frozen=True)
class Store:
    """A folder of entries."""

    root: Path

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key, or None; a damaged one is set aside."""
        path = self._path(key)
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        digest, _, rest = raw.partition(b"\n")
        if sha256_hex(rest).encode() != digest:
            _LOG.warning("%s: damaged, set aside and compiled again", path)
            path.replace(path.with_suffix(".damaged"))
            return None
        facts, _, data = rest.partition(b"\n")
        return Entry(json.loads(facts), data)

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry; where the folder cannot be written, log a warning and keep nothing."""
        path = self._path(key)
        rest = canonical_json(entry.facts) + b"\n" + entry.data
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, sha256_hex(rest).encode() + b"\n" + rest)
        except OSError as err:
            _LOG.warning("%s: not kept: %s", path, err)

    def _path(self, key: str) -> Path:
        return self.root / _FORMAT / key[:2] / key


def default_root(environment: Mapping[str, str]) -> Path | None:
    """Return the user's store: AOTBUILD_STORE, or below the cache folder; None if it says `off`."""
    chosen = environment.get(VARIABLE)
    if chosen:
        return None if chosen == _OFF else Path(chosen)
    cache = environment.get("XDG_CACHE_HOME")
    home = environment.get("HOME")
    if not cache and not home:
        return None
    return (Path(cache) if cache else Path(str(home)) / ".cache") / "aotbuild" / "store"
