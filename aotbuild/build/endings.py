"""How a compiler process ended, in words, from its exit code and its log. Pure."""

from __future__ import annotations

import signal

_NO_MEMORY = ("std::bad_alloc", "out of memory", "Cannot allocate memory", "MemoryError")
_LESS_MEMORY = "fewer compilers at a time leave more to each: --jobs, or AOTBUILD_JOBS"


def ending_of(code: int, log: str) -> str:
    """Return how a process ended that nobody here ended, from its exit code and its log."""
    if code >= 0:
        words = f"the compiler process ended with exit code {code}"
    elif -code == signal.SIGKILL:
        return (
            "the compiler process was killed (SIGKILL), probably by the system for want of memory; "
            f"{_LESS_MEMORY}"
        )
    else:
        words = f"the compiler process died of {_signal_name(-code)}"
    if any(sign.lower() in log.lower() for sign in _NO_MEMORY):
        return f"{words}: it ran out of memory; {_LESS_MEMORY}"
    return words


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
