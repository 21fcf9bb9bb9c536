"""Children that hang, without waiting for them: the clock jumps when a child is where it hangs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from aotbuild.verify import children as process

# Seconds that a child of these tests is given: more than any machine needs.
LIMIT = 600
TOO_LONG = f"took longer than {LIMIT} s and was stopped"


class Clock:
    """What `verify` reads of `time`; a child that touches the file has used up its time.

    The look after the next one is late, so that all the child said before is read by then.
    """

    def __init__(self, hangs: Path) -> None:
        self._hangs, self._ahead = hangs, 0.0

    def monotonic(self) -> float:
        now = time.monotonic() + self._ahead
        self._ahead = 2.0 * LIMIT if self._hangs.exists() else 0.0
        return now


def hanging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return code that hangs, and let `verify` see the time go by when it does."""
    hangs = folder / "hangs"
    monkeypatch.setattr(process, "time", Clock(hangs))
    return f"open({str(hangs)!r}, 'w').close(); signal.pause()"
