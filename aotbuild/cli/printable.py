"""Text that may come from an attacker's wheel, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return text that cannot move a cursor or change a colour: escapes what does not print."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
