"""The files of entries, as jax's cache reads them: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from aotbuild.spec.files import write_whole
from aotbuild.worker import private as jax_private

_TIME_BYTES = 8


def write_entry(folder: Path, key: str, entry: bytes, *, overwrite: bool) -> bool:
    """Write an entry; return whether it was written. One that is there stays without `overwrite`.

    The file with the time comes first: a program that limits the size of its cache reads it for
    each entry it finds.
    """
    name, time_name = jax_private.cache_files(key)
    path = folder / name
    if path.exists() and not overwrite:
        return False
    is_new = not path.exists()
    write_whole(folder / time_name, time.time_ns().to_bytes(_TIME_BYTES, "little"))
    try:
        write_whole(path, entry)
    except OSError:
        if is_new:  # nothing else removes it
            (folder / time_name).unlink(missing_ok=True)
        raise
    return True


def link_entries(folder: Path, keys: Sequence[str]) -> None:
    """Let entries of the same bytes share one file, where the file system can.

    jax replaces files and never changes one.
    """
    source, *others = (folder / jax_private.cache_files(key)[0] for key in keys or [""])
    for path in others:
        temporary = path.with_name(f".{os.urandom(8).hex()}")
        with contextlib.suppress(OSError):
            os.link(source, temporary)
            temporary.replace(path)
        temporary.unlink(missing_ok=True)
