"""Why a unit failed, as the index keeps it: with no path of this machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aotbuild.format.values import cut

# How much of an error is kept.
_LINES = 8
_LONGEST = 800
# The folders of an absolute path. What comes before tells it from a division or a part of a path.
_FOLDERS = re.compile(
    r"""(?<![\w.…/\\\])}])(?:/|[A-Za-z]:[\\/])(?:[^\s/\\:'"<>|()\[\],;]+[\\/])+"""
)
# Addresses differ in each process, and equal builds have equal bytes.
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def reason(message: str, secrets: Iterable[str]) -> str:
    """Return the first lines of an error, with `…` for each folder of this machine."""
    text = _ADDRESS.sub("0x…", without_folders(message, secrets))
    lines = [line.rstrip() for line in text.strip().splitlines()[:_LINES]]
    return cut("\n".join(lines), _LONGEST)


def without_folders(text: str, secrets: Iterable[str]) -> str:
    """Return a text with `…` for `secrets` and for the folders of every absolute path."""
    # The longest first: one may contain another. `/` and `/usr` would be in everything.
    for secret in sorted(set(secrets), key=len, reverse=True):
        if secret.count("/") + secret.count("\\") > 1:
            text = text.replace(secret, "…")
    return _FOLDERS.sub("…/", text)
