"""Databases of SQLite, whose files native code opens: those connected to, and those attached."""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType, ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from aotbuild.worker.recording.reader import Reader, is_seen, told_path, unseen

# The database, and what is beside it: changes that are not in it yet.
_SUFFIXES = ("", "-wal", "-journal")
_ATTACH = 24  # SQLITE_ATTACH


def tell_database(reader: Reader, given: Any, frame: FrameType) -> None:
    """Tell of the files of a database, which may be named by a URI."""
    name = os.fsdecode(given)
    given = unquote(urlsplit(name).path) if name.startswith("file:") else name
    path = told_path(reader, given, frame) if given and name != ":memory:" else None
    for suffix in _SUFFIXES if path else ():
        reader.opened(f"{path}{suffix}", frame)


def watch_databases(reader: Reader, module: ModuleType) -> None:
    """Have each connection say what it attaches. `module` is Python's `_sqlite3`."""
    plain = module.connect
    if hasattr(plain, "__wrapped__"):
        return

    def allow(action: int, name: str | None, *_: str | None) -> int:
        if action == _ATTACH and is_seen():
            with unseen():
                asker = sys._getframe(1)
                if name is None:
                    # A parameter of the statement: its value is not known here.
                    reader.left("attaches a database that a parameter names", asker)
                else:
                    tell_database(reader, name, asker)
        return 0

    @functools.wraps(plain)
    def connect(*args: Any, **kwargs: Any) -> Any:
        connection = plain(*args, **kwargs)
        connection.set_authorizer(allow)
        return connection

    found: Any
    for found in [*sys.modules.values()]:
        if getattr(found, "__dict__", {}).get("connect") is plain:
            found.connect = connect
