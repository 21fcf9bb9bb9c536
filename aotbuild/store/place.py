"""What AOTBUILD_STORE says: a folder, and behind it a URL or a second folder.

::

    /home/me/store,s3://bucket/prefix

A URL alone stands behind the user's own folder. Credentials, endpoints and time limits of a URL are
those of fsspec's configuration, so a URL has no user, password or query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import PlanError

VARIABLE = "AOTBUILD_STORE"
_OFF = "off"
_URL = re.compile(r"[a-z][a-z0-9+.-]*(?:::|://)", re.IGNORECASE)
_EXPECTED = f"expected {_OFF}, a folder, a URL of fsspec, or FOLDER,URL"


@dataclass(frozen=True)
class StorePlace:
    """Where a store is: the folder that builds work with, and what is behind it, if anything."""

    folder: Path | None = None
    behind: Path | str | None = None


def store_place(environment: Mapping[str, str]) -> StorePlace:
    """Return where the store is: what AOTBUILD_STORE says, else the user's folder.

    PlanError if the variable is malformed.
    """
    chosen = environment.get(VARIABLE, "").strip()
    cache = user_cache(environment)
    usual = cache / "store" if cache else None
    if chosen == _OFF:
        return StorePlace()
    if not chosen:
        return StorePlace(usual)
    first, *rest = [_read(part.strip(), environment) for part in chosen.split(",")]
    if isinstance(first, str) and not rest:
        if usual is None:
            msg = f"{VARIABLE}: a URL needs a folder in front: set HOME, or write FOLDER,URL"
            raise PlanError(msg)
        return StorePlace(usual, first)
    if isinstance(first, str) or len(rest) > 1 or first in rest:
        msg = f"{VARIABLE}: {_EXPECTED}, found {chosen!r}"
        raise PlanError(msg)
    return StorePlace(first, *rest)


def user_cache(environment: Mapping[str, str]) -> Path | None:
    """Return aotbuild's folder in the user's cache; None if nothing says where that is.

    A relative path says nothing (XDG Base Directory Specification 0.8): it would be in the project.
    """
    cache, home = (Path(environment.get(name, "")) for name in ("XDG_CACHE_HOME", "HOME"))
    if not cache.is_absolute():
        cache = home / ".cache"
    return cache / "aotbuild" if cache.is_absolute() else None


def _read(text: str, environment: Mapping[str, str]) -> Path | str:
    """Return the folder or the URL that a text names; PlanError without what may be secret."""
    if _URL.match(text):
        if "@" in text or "?" in text:
            scheme = text.partition("://")[0]
            msg = (
                f"{VARIABLE}: {scheme}://…: expected a URL without user, password and query; "
                "credentials go into the configuration of fsspec or of its library"
            )
            raise PlanError(msg)
        return text.rstrip("/")
    path, home = Path(text), environment.get("HOME")
    if path.parts[:1] == ("~",) and home:
        path = Path(home, *path.parts[1:])
    if not path.is_absolute():
        # Builds of a wheel run in the project, whose files go into its sdist.
        msg = f"{VARIABLE}: {_EXPECTED}; a folder is an absolute path, found {text!r}"
        raise PlanError(msg)
    return path
