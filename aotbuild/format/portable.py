"""How long a portable form can be read: the window that `jax.export` promises, as dates.

jax reads what a version up to 6 months older has serialized, and what a version up to 3 weeks newer
has; what counts is when both were released, not when they run. From version 0.12 on, it refuses
what it knows to be older. (JAX's documentation, "Exporting and serializing staged-out
computations", section "Compatibility guarantees"; jax/_src/export/serialization.py.) StableHLO,
which is inside, is read for 5 years (openxla/stablehlo, docs/compatibility.md), so jax's window
ends first.

The dates here are never later than what jax promises: half a year has 180 days, and a version that
is not in the table counts as old as the newest one below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from aotbuild.format.record import Record

# When versions of jax were released, from the oldest that builds. A new one can be added at any
# time; the dates are those of the files in jax's own wheel.
_RELEASED = (
    ("0.10.2", date(2026, 6, 17)),
    ("0.11.0", date(2026, 7, 16)),
    ("0.11.1", date(2026, 8, 17)),
    ("0.11.2", date(2026, 9, 17)),
    ("0.12.0", date(2026, 10, 16)),
    ("0.12.0.1", date(2026, 10, 20)),
)
_WINDOW = timedelta(days=180)
_NEAR = timedelta(days=30)


@dataclass(frozen=True)
class Window:
    """Which versions of jax read a portable form: those that were released up to `until`.

    `jax` is the version that exported it.
    """

    jax: str
    until: date

    def to_json(self) -> dict[str, str]:
        """Return it as documents of commands have it."""
        return {"jax": self.jax, "until": self.until.isoformat()}

    def is_left_by(self, jax: str) -> bool:
        """Return whether a version of jax is known to be too new."""
        released = released_after(jax)
        return released is not None and released > self.until

    def warning(self, today: date) -> str:
        """Return what to do, if the end is near or has passed; else nothing."""
        if today > self.until:
            return "that has passed: a jax released since then may refuse it. Build again"
        if today + _NEAR > self.until:
            days = (self.until - today).days
            return f"that is {days} days from now: build again before you move to a newer jax"
        return ""

    def __str__(self) -> str:
        return f"exported by jax {self.jax}, read by each jax released until {self.until}"


def window_of(records: Iterable[Record]) -> Window | None:
    """Return the window of the portable form that expires first; None if nothing is known."""
    exported = [record for record in records if record.target.is_portable]
    windows = (_window(record.provenance.get("jax")) for record in exported)
    return min(filter(None, windows), key=lambda window: window.until, default=None)


def _window(jax: object) -> Window | None:
    released = released_after(jax) if isinstance(jax, str) else None
    return None if released is None else Window(str(jax), released + _WINDOW)


def released_after(jax: str) -> date | None:
    """Return a date on or before that of a version's release; None for one that is too old."""
    place = _place(jax)
    known = [released for version, released in _RELEASED if _place(version) <= place]
    return known[-1] if known else None


def _place(version: str) -> tuple[tuple[int, ...], bool]:
    """Return the numbers of a version, and whether it is the release; empty for no version."""
    found = re.match(r"(\d{1,9}(?:\.\d{1,9}){0,9})(.*)", version)
    if not found:
        return (), False
    # `0.12.0.dev20261001` and `0.12.0rc1` come before `0.12.0`, which `0.12.0+local` is.
    is_release = not found[2] or found[2].startswith("+")
    return tuple(map(int, found[1].split("."))), is_release
