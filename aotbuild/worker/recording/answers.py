"""What was found when it was first asked, to see whether this process has changed it since."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from aotbuild.store.folder_names import (
    executable_at,
    kind_at,
    link_at,
    names_in,
    readable_at,
    size_at,
    writable_at,
)

_ASKED: dict[str, Callable[[str], object]] = {
    # Their content is compared by time.
    "files": os.path.exists,
    "listings": names_in,
    "looked": kind_at,
    "readable": readable_at,
    "writable": writable_at,
    "executable": executable_at,
    "sizes": size_at,
    "links": link_at,
}


class FirstAnswers:
    """The first answer to each question about a path, by the kind of question."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], object] = {}

    def note(self, kind: str, path: str) -> None:
        """Note what is there before something is asked for the first time."""
        if (kind, path) not in self._found:
            self._found[kind, path] = _ASKED[kind](path)

    def changed(self) -> Iterator[tuple[str, str]]:
        """Yield each kind of question and path whose answer is another one now."""
        for (kind, path), before in [*self._found.items()]:
            if _ASKED[kind](path) != before:
                yield kind, path
