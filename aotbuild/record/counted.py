"""Numbers of calls and seconds, in words."""

from __future__ import annotations

from aotbuild.record.recording import Tally


def counted(number: int, word: str) -> str:
    """Return `1 call` or `1,204 calls`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def cost(tally: Tally, signatures: int = 0) -> str:
    """Return `1,204 calls, 3 signatures, 12.4 s to compile`."""
    parts = [counted(tally.calls, "call")]
    parts += [counted(signatures, "signature")] if signatures else []
    return ", ".join([*parts, f"{tally.seconds:,.1f} s to compile"])
