"""How long jobs took to compile, kept in the store, and the splits that were made from it.

A job's time is kept by what is known of it before it is traced: its part of the manifest, its
targets and versions. The first time that a store has of a job stays, so all who share a store know
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from aotbuild.spec.switches import is_on
from aotbuild.store.entry import DamagedEntry, Entry, read_entry
from aotbuild.store.keys import key_of
from aotbuild.store.layers import Layer, Layers

TIMES_VARIABLE = "AOTBUILD_TIMES"
_READERS = 16


def times_of(layers: Layers, environment: Mapping[str, str]) -> Times:
    """Return the times in a store; PlanError if AOTBUILD_TIMES is neither `on` nor `off`."""
    return Times(layers, is_on=is_on(TIMES_VARIABLE, environment))


def time_key(job: Mapping[str, Any], toolchain: str) -> str:
    """Return the key of a job's time; `job` is its JSON form."""
    return key_of({"entry": "time 1", "job": dict(job), "toolchain": toolchain})


@dataclass(frozen=True, eq=False)
class Times:
    """The times in the layers of a store. Where `is_on` is false, nothing is known or kept."""

    layers: Layers
    is_on: bool = True

    def here(self, keys: Iterable[str]) -> dict[str, float]:
        """Return the seconds of the jobs that the folder in front knows.

        They are in use, so they are pushed, too.
        """
        if not self.is_on:
            return {}
        store = self.layers.store.apart()
        read = ((key, store.get(key)) for key in keys)
        found = {key: _seconds(entry) for key, entry in read if entry is not None}
        self.layers.aside.update(found)
        return found

    def shared(self, keys: Iterable[str]) -> dict[str, float]:
        """Return the seconds of the jobs that the farthest layer knows, which most have in common.

        Asks for several at a time.
        """
        keys = list(keys)
        if not self._farthest:
            return {}
        with ThreadPoolExecutor(_READERS) as threads:
            entries = list(threads.map(self._read, keys))
        pairs = zip(keys, entries, strict=True)
        return {key: _seconds(entry) for key, entry in pairs if entry is not None}

    def keep(self, seconds: Mapping[str, float]) -> None:
        """Keep the seconds of jobs of which the folder in front has none, and push them later."""
        known = self.here(seconds)
        for key in seconds.keys() - known.keys():
            self._put(key, {"seconds": round(seconds[key], 3)})

    def split_of(self, inputs: Mapping[str, Any]) -> list[int] | None:
        """Return which shard has which unit, if a shard of the same inputs has written it down."""
        entry = self._read(_split_key(inputs))
        return None if entry is None else list(entry.facts["numbers"])

    def keep_split(self, inputs: Mapping[str, Any], numbers: Iterable[int]) -> None:
        """Write down which shard has which unit, in all layers and at once."""
        if self.is_on:
            key = _split_key(inputs)
            self._put(key, {"numbers": list(numbers)})
            self.layers.push([key])

    @property
    def _farthest(self) -> Layer | None:
        return self.layers.layers[-1] if self.layers.layers and self.is_on else None

    def _read(self, key: str) -> Entry | None:
        return _parsed(self._farthest.read(key), key) if self._farthest else None

    def _put(self, key: str, facts: dict[str, Any]) -> None:
        """Write an entry to the folder in front, and push it later."""
        if self.is_on:
            self.layers.store.apart().put(key, Entry(facts, b""))
            self.layers.aside.add(key)


def _parsed(raw: bytes | None, key: str) -> Entry | None:
    try:
        return None if raw is None else read_entry(raw, key)
    except DamagedEntry:
        return None


def _split_key(inputs: Mapping[str, Any]) -> str:
    return key_of({"entry": "split 1", **inputs})


def _seconds(entry: Entry) -> float:
    return max(float(entry.facts["seconds"]), 0.0)
