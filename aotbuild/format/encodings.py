"""The encodings that Python takes from its environment, and what decides them."""

from __future__ import annotations

import locale
import sys

UTF8 = "utf-8"


def encodings() -> tuple[str, str]:
    """Return how files are read if nobody says it, and how with `encoding="locale"`.

    The first is also that of names of files. It was set when Python started, so it is what
    `open` takes, whatever locale was set since.
    """
    return sys.getfilesystemencoding(), locale.getencoding()
