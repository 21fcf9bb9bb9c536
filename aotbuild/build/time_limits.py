"""Time limits: of a whole job (AOTBUILD_TIMEOUT), and of computing its golden outputs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from aotbuild.errors import PlanError

# For calling a function with golden inputs, once at each of its signatures; in seconds.
GOLDEN_SECONDS = 60.0

# For one job, in seconds, and the variable that sets another limit.
DEFAULT_TIMEOUT = 3600.0
TIMEOUT_VARIABLE = "AOTBUILD_TIMEOUT"
# A year; what is longer does not fit the timers of the system.
_LONGEST_TIMEOUT = 366 * 24 * 3600


def job_timeout(environment: Mapping[str, str]) -> float:
    """Return how long one job may take, in seconds: AOTBUILD_TIMEOUT, or 3,600."""
    text = environment.get(TIMEOUT_VARIABLE)
    if not text:
        return DEFAULT_TIMEOUT
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= _LONGEST_TIMEOUT:
        expected = f"expected whole seconds from 1 to {_LONGEST_TIMEOUT}"
        msg = f"{TIMEOUT_VARIABLE}: {expected}, found {text!r}"
        raise PlanError(msg)
    return float(text)


class GoldenLimit:
    """Kills a worker that takes too long to call the user's function; `reason` then says so.

    `kill` gets the reason. `seconds` is how long the call took.
    """

    def __init__(self, kill: Callable[[str], None], limit: float) -> None:
        self._kill, self._limit = kill, limit
        self._timer = threading.Timer(limit, self._end)
        self._started: float | None = None
        self.reason: str | None = None
        self.seconds = 0.0

    def start(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._timer.start()

    def stop(self) -> None:
        """Stop the clock; the worker is not killed after this."""
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()
        if self._started is not None:
            self.seconds = time.monotonic() - self._started

    def restart(self) -> None:
        """Give as much time again, if any is counted, without adding it to `seconds`."""
        self.stop()
        if self._started is not None:
            self._started = None
            self._timer = threading.Timer(self._limit, self._end)
            self._timer.start()

    def _end(self) -> None:
        self.reason = f"it took longer than {self._limit:g} s"
        self._kill(self.reason)
