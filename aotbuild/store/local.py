"""The store on disk: a folder of entries by key (`store.keys`), shared by all builds of a user.

An entry is one file: the SHA-256 of the rest in hexadecimal, a line of canonical JSON (the facts),
and the bytes. It is written to a temporary file, synced and renamed, so no reader sees half of one.
Two builds that write the same entry write equal files. A damaged entry is set aside and made again.
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
    """Bytes, and facts that only making them shows (plain JSON)."""

    facts: dict[str, Any]
    data: bytes


@dataclass(frozen=True)
class Store:
    """A folder of entries; without one, nothing is kept and nothing is found."""

    root: Path | None

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key, or None; a damaged one is set aside."""
        if self.root is None:
            return None
        path = _path(self.root, key)
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
        if self.root is None:
            return
        path = _path(self.root, key)
        rest = canonical_json(entry.facts) + b"\n" + entry.data
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, sha256_hex(rest).encode() + b"\n" + rest)
        except OSError as err:
            _LOG.warning("%s: not kept: %s", path, err)


def _path(root: Path, key: str) -> Path:
    return root / _FORMAT / key[:2] / key


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
