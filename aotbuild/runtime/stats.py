"""Counters of one library, safe to raise from several threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Stats:
    """What a library did since it was opened; times are in seconds."""

    def __init__(self) -> None:
        # A signal handler or a finalizer may come in the middle, and count too.
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0
        self._prime_seconds = 0.0

    def count(self, name: str) -> None:
        """Add one to a counter."""
        with self._lock:
            self._counts[name] += 1

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Count one executable as loaded and add the time that it took."""
        start = perf_counter()
        yield
        with self._lock:
            self._counts["loaded"] += 1
            self._seconds += perf_counter() - start

    def primed(self, seconds: float) -> None:
        """Count one executable as run on zeros, and the time that it took."""
        with self._lock:
            self._counts["primed"] += 1
            self._prime_seconds += seconds

    def to_dict(self) -> dict[str, int | float | dict[str, int]]:
        """Return all of it as plain data."""
        with self._lock:
            counts, seconds = self._counts.copy(), self._seconds
            prime_seconds = self._prime_seconds
        return {
            "loaded": counts["loaded"],
            "load_seconds": seconds,
            "primed": counts["primed"],
            "prime_seconds": prime_seconds,
            "misses": counts["misses"],
            "fallbacks": {kind: counts[f"fallback.{kind}"] for kind in ("portable", "jit")},
            "portable_compiled": counts["portable_compiled"],
            "transformed": counts["transformed"],
            "padded": counts["padded"],
        }
