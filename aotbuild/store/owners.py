"""Who else may write to a folder of the store: what they put there would run on this machine.

AOTBUILD_STORE_STRICT says what becomes of such a folder: `on` refuses it, `off` is silent, and by
default there is a warning. Folders whose entries must be signed need no check.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.format.owners import who_else_writes
from aotbuild.format.switches import is_on
from aotbuild.store.folder import FORMAT

STRICT = "AOTBUILD_STORE_STRICT"
_LOG = logging.getLogger("aotbuild")


def check_owners(folder: Path, environment: Mapping[str, str]) -> None:
    """Warn if others may write to a folder of the store; PlanError if that is refused."""
    is_set = bool(environment.get(STRICT))
    is_strict = is_on(STRICT, environment)
    if is_set and not is_strict:
        return
    problem = next(_problems(folder), None)
    if problem is None:
        return
    text = (
        f"{problem}, and what others put there would run here. Use a folder that only you may "
        "write to; a shared one goes behind it, with signatures that AOTBUILD_STORE_TRUST demands"
    )
    if is_set:
        msg = f"{text} ({STRICT} is on)"
        raise PlanError(msg)
    _warn(text)


@cache
def _warn(text: str) -> None:
    """Warn once: the hooks of one wheel open the store several times."""
    _LOG.warning("%s", text)


def _problems(root: Path) -> Iterator[str]:
    """Yield why somebody else may write to a folder of the store, or to a folder in it."""
    for path in _folders(root):
        with suppress(OSError):  # it is not there, or has just been removed
            if problem := who_else_writes(path.stat()):
                yield f"{path}: {problem}"


def _folders(root: Path) -> Iterator[Path]:
    yield root
    with suppress(OSError):
        yield from sorted((root / FORMAT, *(root / FORMAT).iterdir()))
