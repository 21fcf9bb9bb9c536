"""Entries to put into a store, and what its commands and folders have afterwards."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from aotbuild.store.entry import Entry, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.keys import key_of
from support.cli import run

DAY = 86400.0


def put(root: Path, name: str, days: float = 0, size: int = 1000) -> str:
    """Put an entry of about `size` bytes that was last used some days ago; return its key."""
    key = key_of({"name": name})
    Folder(root).write(key, write_entry(key, Entry({}, bytes(size))))
    used_days_ago(Folder(root).path(key), days)
    return key


def used_days_ago(path: Path, days: float) -> None:
    when = time.time() - days * DAY
    os.utime(path, (when, when))


def document(*args: object, code: int = 0) -> Any:
    return json.loads(run("store", *args, "--json", code=code).stdout)


def keys_in(root: Path) -> set[str]:
    return {path.name for path in (root / "v2").glob("*/*")}
