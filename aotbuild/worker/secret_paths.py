"""Folders of this machine that no byte of a package may name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from aotbuild.errors import TraceRefused

# What ends a path in bytes: a control character or a quote.
_PATH_END = re.compile(rb"[\0-\x1f\"']")
_LONGEST = 300


class SecretPaths(tuple[bytes, ...]):
    """The folders, the most specific first: those given, home, Python's own and its path."""

    __slots__ = ()

    @classmethod
    def of_this_machine(cls, given: Iterable[str]) -> SecretPaths:
        home = str(Path("~").expanduser())
        paths = {*given, home, sys.prefix, sys.base_prefix, *map(os.path.abspath, sys.path)}
        # Short ones such as / or /usr occur by chance.
        long_enough = (path for path in paths if path.count(os.sep) > 1)
        return cls(os.fsencode(path) for path in sorted(long_enough, key=len, reverse=True))

    def are_in(self, data: bytes) -> bool:
        """Return whether one of them is in these bytes."""
        return any(path in data for path in self)

    def refuse_in(self, what: str, data: bytes) -> None:
        """Raise TraceRefused if one of them is in these bytes, which are `what`."""
        for path in self:
            at = data.find(path)
            if at >= 0:
                found = _PATH_END.split(data[at : at + _LONGEST])[0].decode("utf-8", "ignore")
                msg = (
                    f"{what} would contain {found!r}, a path of this machine; the function "
                    "probably keeps __file__ or a path in a name (jax.named_scope, __name__) or in "
                    "a static value: take it out there"
                )
                raise TraceRefused(msg)
