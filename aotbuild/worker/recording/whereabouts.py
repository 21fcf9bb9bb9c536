"""Whether a text or a file says where the project is.

Code that finds a file beside itself reads that of its own checkout. One that has the path from
elsewhere reads the same file in every checkout, and the path alone does not tell which it was.
"""

from __future__ import annotations

import os
import re
import stat
from mmap import ACCESS_READ, mmap
from pathlib import Path


class Whereabouts:
    """Looks for the path of a folder: of it or of what is in it, or of a folder that it is in.

    With `working`, also for its path relative to that. Files are read once.
    """

    def __init__(self, root: str, working: str = "") -> None:
        roots = {root, os.path.realpath(root)}
        above = {str(parent) for each in roots for parent in Path(each).parents} - {os.sep}
        # A path below another folder that has one of these above it is none of ours.
        parents = "|".join(map(re.escape, sorted(above))) or "(?!)"
        relative = {os.path.relpath(root, working)} if working else set()
        text = "|".join(map(re.escape, sorted(roots | relative)))
        text += rf"|(?<![\w./-])(?:{parents})(?:/?(?![\w./-])|/+\.)"
        self._pattern = re.compile(os.fsencode(text))
        self._found: dict[str, bool] = {}

    def is_in(self, text: str) -> bool:
        """Return whether a text has such a path."""
        return self._pattern.search(text.encode("utf-8", "surrogateescape")) is not None

    def is_in_file(self, path: str) -> bool:
        """Return whether a file has such a path; not one that is missing or is no file."""
        if path not in self._found:
            self._found[path] = self._look(Path(path))
        return self._found[path]

    def _look(self, path: Path) -> bool:
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) or not found.st_size:
                return False
            with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                return self._pattern.search(data) is not None
        except OSError:
            return False
