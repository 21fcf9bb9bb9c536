"""Counters of one library, as `Library.stats()` returns them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class Stats:
    """Thread-safe counters of one library since it was opened; times are in seconds."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def count(self, name: str) -> None:
        """Add one to a counter."""
        with self._lock:
            self._counts[name] += 1

    def loaded(self, seconds: float) -> None:
        """Count one loaded executable, and the time that it took."""
        with self._lock:
            self._counts["loaded"] += 1
            self._seconds += seconds

    def to_dict(self) -> dict[str, Any]:
        """Return all counters and times as plain data."""
        with self._lock:
            counts, seconds = self._counts.copy(), self._seconds
        return {
            "loaded": counts["loaded"],
            "load_seconds": seconds,
            "misses": counts["misses"],
            "refused": counts["refused"],
            "fallbacks": {kind: counts[f"fallback.{kind}"] for kind in ("portable", "jit")},
            "portable_compiled": counts["portable_compiled"],
            "transformed": counts["transformed"],
            "padded": counts["padded"],
            "host_callbacks": counts["host_callbacks"],
        }
