"""How long jobs took to compile, kept in the store, and the splits that were made from it.

A job's time is kept by what is known of it before it is traced: its part of the manifest, its
targets and versions. The first time that a store has of a job stays, so all who share a store know
the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from aotbuild.format.canonical import whole
from aotbuild.format.switches import is_on
from aotbuild.store.entry import DamagedEntry, Entry, read_entry
from aotbuild.store.keys import key_of
from aotbuild.store.layer import Layer
from aotbuild.store.layers import Layers

TIMES_VARIABLE = "AOTBUILD_TIMES"
_READERS = 16
_T = TypeVar("_T")


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
        store = self.layers.store.uncounted()
        read = ((key, store.parsed(key, _seconds)) for key in keys)
        found = {key: seconds for key, seconds in read if seconds is not None}
        self.layers.uncounted.update(found)
        return found

    def shared(self, keys: Iterable[str]) -> dict[str, float]:
        """Return the seconds of the jobs that the farthest layer knows, which most have in common.

        Asks for several at a time.
        """
        keys = list(keys)
        if not self._farthest:
            return {}
        with ThreadPoolExecutor(_READERS) as threads:
            found = list(threads.map(partial(self._read, parse=_seconds), keys))
        pairs = zip(keys, found, strict=True)
        return {key: seconds for key, seconds in pairs if seconds is not None}

    def keep(self, seconds: Mapping[str, float]) -> None:
        """Keep the seconds of jobs of which the folder in front has none, and push them later."""
        known = self.here(seconds)
        for key in seconds.keys() - known.keys():
            self._put(key, {"seconds": round(seconds[key], 3)})

    def split_of(self, inputs: Mapping[str, Any], units: int, of: int) -> list[int] | None:
        """Return which shard has which unit, if a shard of the same inputs has written it down.

        There are so many `units`, and so many shards.
        """
        return self._read(_split_key(inputs), partial(_numbers, units=units, of=of))

    def keep_split(self, inputs: Mapping[str, Any], numbers: Iterable[int]) -> None:
        """Write down which shard has which unit, in all layers and at once."""
        if self.is_on:
            key = _split_key(inputs)
            self._put(key, {"numbers": list(numbers)})
            self.layers.push([key])

    @property
    def _farthest(self) -> Layer | None:
        return self.layers.layers[-1] if self.layers.layers and self.is_on else None

    def _read(self, key: str, parse: Callable[[Entry], _T]) -> _T | None:
        """Return what the entry of the farthest layer says; one that says something else is none.

        It is replaced then by what is pushed.
        """
        layer = self._farthest
        raw = layer.read(key) if layer else None
        if layer is None or raw is None:
            return None
        try:
            return read_entry(raw, key).parsed(parse)
        except DamagedEntry as err:
            layer.refuse(key, str(err))
            return None

    def _put(self, key: str, facts: dict[str, Any]) -> None:
        """Write an entry to the folder in front, and push it later."""
        if self.is_on:
            self.layers.store.uncounted().put(key, Entry(facts, b""))
            self.layers.uncounted.add(key)


def _split_key(inputs: Mapping[str, Any]) -> str:
    return key_of({"entry": "split 1", **inputs})


def _seconds(entry: Entry) -> float:
    found = entry.facts["seconds"]
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < math.inf:
        msg = f"expected seconds, found {found!r}"
        raise ValueError(msg)
    return float(found)


def _numbers(entry: Entry, units: int, of: int) -> list[int]:
    found = list(map(whole, entry.facts["numbers"]))
    if len(found) != units or not all(1 <= number <= of for number in found):
        msg = f"expected {units} numbers from 1 to {of}"
        raise ValueError(msg)
    return found
