"""Which versions of jaxlib somebody has looked at, where we rely on what it does not promise."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version


def is_between(jaxlib: str, first: str, end: str) -> bool:
    """Return whether a version is `first` or later, and before `end` and all its prereleases."""
    try:
        version = Version(jaxlib)
    except InvalidVersion:
        return False
    return Version(first) <= version and version.release < Version(end).release
