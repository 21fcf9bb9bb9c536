"""The folder of made toolchains, shared by all builds of a user."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aotbuild.errors import PlanError

VARIABLE = "AOTBUILD_TOOLCHAINS"


def cache_root(environment: Mapping[str, str]) -> Path:
    """Return the folder: AOTBUILD_TOOLCHAINS, or one below the user's cache; PlanError without."""
    chosen = environment.get(VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    cache, home = environment.get("XDG_CACHE_HOME"), environment.get("HOME")
    if not cache and not home:
        msg = f"toolchains have no place: set HOME, or {VARIABLE} to a folder that is kept"
        raise PlanError(msg)
    return (Path(cache) if cache else Path(str(home)) / ".cache") / "aotbuild" / "toolchains"


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold the lock of a place while others that want it wait; it ends with the process."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache_folder() -> Path:
    """Return the folder of this process's user, which is there."""
    folder = cache_root(os.environ)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
