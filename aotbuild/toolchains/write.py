"""Write the locks of a manifest's toolchains, and say which of them are out of date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.manifest import Manifest
from aotbuild.spec.layout import write_whole
from aotbuild.toolchains.environments import folder_of
from aotbuild.toolchains.lock import Lock, is_lock, local_files, read_lock
from aotbuild.toolchains.resolve import checked_lock, committed_lock, compile_lock
from aotbuild.toolchains.uv import running_python
from aotbuild.toolchains.wanted import Wanted, wanted_toolchains

_HEADER = "# Written by `aotbuild lock`, in the standard form pylock.toml (PEP 751). Commit it.\n"


@dataclass(frozen=True)
class WrittenLock:
    """A lock beside its manifest; `changed` says whether it is another one than before.

    `local` are the files of this machine that it names.
    """

    file: Path
    lock: Lock
    changed: bool
    local: tuple[str, ...] = ()


def write_locks(
    manifest: Manifest, project: Sequence[str], *, upgrade: bool = False
) -> Iterator[WrittenLock]:
    """Resolve every toolchain, write its lock beside the manifest, and yield it.

    Versions of an earlier lock stay where they can, but with `upgrade`, or where it is none any
    more. PlanError with uv's reason.
    """
    folder = folder_of(manifest)
    for wanted, python in _named(manifest, project):
        file = folder / wanted.lock_name
        before = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        kept = before if is_lock(before) and not upgrade else None
        text = _HEADER + compile_lock(wanted, python, folder, kept)
        lock = read_lock(text, str(file), python)
        if text != before:
            write_whole(file, text.encode())
        yield WrittenLock(file, lock, text != before, local_files(text))


def check_locks(manifest: Manifest, project: Sequence[str]) -> Iterator[WrittenLock]:
    """Yield every lock if it is there and fits; needs no network. PlanError for one that is not."""
    folder = folder_of(manifest)
    for wanted, python in _named(manifest, project):
        if committed_lock(wanted, folder) is None:
            msg = f"{wanted.title}: {folder / wanted.lock_name} is not there; run aotbuild lock"
            raise PlanError(msg)
        lock = checked_lock(wanted, python, folder / wanted.lock_name)
        yield WrittenLock(folder / wanted.lock_name, lock, False)


def _named(manifest: Manifest, project: Sequence[str]) -> Iterator[tuple[Wanted, str]]:
    if not manifest.toolchains:
        msg = (
            f"{manifest.file}: names no toolchain, so there is nothing to lock; say which jax "
            "compiles, for example toolchains: [{jax: 0.10.2}]"
        )
        raise PlanError(msg)
    for wanted in wanted_toolchains(manifest, project, None):
        yield wanted, wanted.python or running_python()
