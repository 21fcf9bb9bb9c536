"""What the kernels of one library share: the index, the host's facts, counters, the policy."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.format.index import EDITABLE, Index
from aotbuild.runtime.observers import monitor
from aotbuild.runtime.source import Source

if TYPE_CHECKING:
    from aotbuild.format.left_out import AllLeftOut
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.companions import Companion
    from aotbuild.runtime.devices import DeviceSet

POLICIES = ("none", "portable", "jit")
VARIABLE = "AOTBUILD_FALLBACK"


class Stats:
    """Thread-safe counters of one library since it was opened; times are in seconds."""

    def __init__(self) -> None:
        # Reentrant: a signal handler or a finalizer may interrupt `count` and count too.
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0
        self._prime_seconds = 0.0
        # Calls by function and signature, if they are counted; see `runtime.call_counts`.
        self.calls: Callable[[], dict[str, dict[str, int]]] | None = None

    def count(self, name: str, more: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name] += more
        monitor(name.replace(".", "/"))

    def value(self, name: str) -> int:
        """Return a counter."""
        return self._counts[name]

    def loaded(self, seconds: float) -> None:
        """Count one loaded executable, and the time that it took."""
        with self._lock:
            self._counts["loaded"] += 1
            self._seconds += seconds
        monitor("load_duration", seconds)

    def primed(self, seconds: float) -> None:
        """Count one executable that was run on zeros, and the time that it took."""
        with self._lock:
            self._counts["primed"] += 1
            self._prime_seconds += seconds
        monitor("prime_duration", seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return all counters and times as plain data."""
        with self._lock:
            counts, seconds = self._counts.copy(), self._seconds
            prime_seconds = self._prime_seconds
        return {
            "loaded": counts["loaded"],
            "load_seconds": seconds,
            "primed": counts["primed"],
            "prime_seconds": prime_seconds,
            "misses": counts["misses"],
            "refused": counts["refused"],
            "fallbacks": {kind: counts[f"fallback.{kind}"] for kind in ("portable", "jit")},
            "portable_compiled": counts["portable_compiled"],
            "transformed": counts["transformed"],
            "padded": counts["padded"],
            "copied_bytes": counts["copied_bytes"],
            "host_callbacks": counts["host_callbacks"],
            **({"calls": self.calls()} if self.calls else {}),
        }


@dataclass(frozen=True)
class OpenedPackage:
    """A package with its installed companions: one source and one index for all of them.

    `absent` has a line for each companion that is not installed.
    """

    source: Source
    index: Index
    companions: tuple[Companion, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Package:
    """One opened package. It holds data only: no backend and nothing that is loaded.

    `probe` returns the host's facts for a set of devices. `fallback` is the policy of the caller or
    of the index, which AOTBUILD_FALLBACK overrides. `absent` has a line for each companion that is
    not installed. `on_kernel` is told of each new kernel. With `copies`, calls copy their numpy
    arrays first.
    """

    name: str
    index: Index
    stats: Stats
    probe: Callable[[DeviceSet], Host]
    fallback: str | None
    absent: tuple[str, ...] = ()
    on_kernel: Callable[[Any], None] | None = None
    copies: bool = False

    @property
    def editable(self) -> dict[str, Any]:
        """What `jax.jit` is told of each function of an editable install; else empty."""
        found: dict[str, Any] = self.index.header.get(EDITABLE, {})
        return found

    @property
    def fallback_policy(self) -> str:
        """The fallback policy in force now."""
        return fallback_policy(self.fallback)


def left_out(index: Index) -> AllLeftOut:
    """Return what failed when a package was built; nothing if the header is malformed."""
    from aotbuild.format.left_out import AllLeftOut, read_left_out

    try:
        return read_left_out(index.header)
    except ValueError:  # the error at hand matters more, and `aotbuild verify` finds this one
        return AllLeftOut()


def fallback_policy(default: str | None) -> str:
    """Return the policy in force: the operator's variable, else `default`, else `none`."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        check_policy(chosen, f"the environment variable {VARIABLE}")
        return chosen
    check_policy(default, "the index's fallback")
    return default or "none"


def check_policy(value: object, place: str) -> None:
    """Raise AotbuildError unless `value` is a fallback policy, or None for no opinion."""
    if value is not None and value not in POLICIES:
        msg = f"{place}: expected one of {', '.join(POLICIES)}, found {value!r}; set one of these"
        raise AotbuildError(msg)
