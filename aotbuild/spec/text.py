"""Texts for people."""

from __future__ import annotations


def cut(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters; one that was cut ends with `…`."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
