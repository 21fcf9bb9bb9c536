"""Exact versions of a toolchain: from the lock beside the manifest, else from uv, once."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.format.files import naming, read_regular_text, write_whole
from aotbuild.format.temporary import temporary_folder
from aotbuild.manifest import Manifest
from aotbuild.store.keys import key_of
from aotbuild.toolchains.lock import Lock, is_lock, local_files, read_lock, unmet
from aotbuild.toolchains.uv import UvFailed, cache_root, locked, run_uv, running_python
from aotbuild.toolchains.wanted import Wanted, wanted_toolchains

Say = Callable[[str], None]
# As uv 0.9 to 0.13 says that it would have to build a package.
_SOURCE = re.compile(r"(?is)building (from source|source distributions)\b.{0,300} disabled")
_HINT = (
    "Change jax: or python: of the toolchain, or the project's dependencies. uv needs "
    "the package index, and reads its own settings of one (UV_DEFAULT_INDEX, uv.toml), not pip's; "
    "a lock of aotbuild lock spares builds that."
)
_SOURCE_HINT = (
    "It has no wheel here, and building it would run its code, which no plan does. Build a wheel "
    "of it, and name that."
)


def resolved(wanted: Wanted, python: str, folder: Path, say: Say) -> tuple[Lock, Path | None]:
    """Return the lock of a toolchain for a Python (`3.11`), and its file if it is committed.

    `folder` is the manifest's. Without a committed lock, uv resolves once and the result is cached;
    `say` gets progress lines. PlanError if the lock is out of date, or with uv's reason. No code of
    a package runs.
    """
    committed = committed_lock(wanted, folder)
    if committed is not None:
        return checked_lock(wanted, python, committed), committed
    inputs = {
        "requirements": list(wanted.requirements),
        "python": python,
        "machine": [platform.system(), platform.machine()],
        # Settings of uv name the indexes that versions come from.
        "uv": {name: text for name, text in os.environ.items() if name.startswith("UV_")},
        "files": [_text(folder / name) for name in ("uv.toml", "pyproject.toml")],
        "folder": str(folder),
    }
    place = cache_root(os.environ) / "locks" / key_of(inputs) / "pylock.toml"
    if not place.exists():
        with locked(place.parent, say):
            if not place.exists():  # another build may have asked while this one waited
                say(f"{wanted.title}: no lock beside the manifest (aotbuild lock); asking uv")
                text = compile_lock(wanted, python, folder)
                place.parent.mkdir(exist_ok=True)
                write_whole(place, text.encode())
    return read_lock(read_regular_text(place), str(place), python), None


def _text(file: Path) -> str:
    try:
        return read_regular_text(file, "replace")
    except OSError:
        return ""


def committed_lock(wanted: Wanted, folder: Path) -> Path | None:
    """Return the lock of a toolchain beside its manifest, if there is one.

    A pipe, a device or a link that leads nowhere is one, too: reading it is an error, while without
    a lock other versions would be taken in silence.
    """
    path = folder / wanted.lock_name
    return path if wanted.lock_name and os.path.lexists(path) else None


def compile_lock(wanted: Wanted, python: str, folder: Path, before: str | None = None) -> str:
    """Let uv resolve; return the text of the lock. PlanError gives uv's reason.

    Versions in the lock `before` are kept where possible. What is neither a wheel nor says in a
    file what it requires would have to be built to find out, which runs its code: it is refused.
    """
    with temporary_folder() as temporary:
        given, made = Path(temporary, "requirements.in"), Path(temporary, "pylock.toml")
        with naming(temporary):
            given.write_text("".join(f"{line}\n" for line in wanted.requirements), encoding="utf-8")
            if before is not None:
                made.write_text(before, encoding="utf-8")
        # This Python only says which machine it is on: the other one may not be installed.
        target = ("--python", sys.executable, "--python-version", python)
        options = ("--quiet", "--no-header", "--no-build", "--format=pylock.toml", "-o", made)
        try:
            run_uv(("pip", "compile", *target, *options, given), folder)
        except UvFailed as err:
            reason = "\n".join(f"  {line}" for line in str(err).splitlines())
            hint = _SOURCE_HINT if _SOURCE.search(str(err)) else _HINT
            msg = f"{wanted.title}: uv cannot resolve it for Python {python}\n{reason}\n{hint}"
            raise PlanError(msg) from err
        return made.read_text(encoding="utf-8")


def checked_lock(wanted: Wanted, python: str, path: Path) -> Lock:
    """Read a committed lock; PlanError says what of the requirements it does not meet."""
    lock = read_lock(read_regular_text(path, "replace"), str(path), python)
    problems = list(unmet(lock, wanted.requirements, python))
    if problems:
        listing = "".join(f"\n  {problem}" for problem in problems)
        msg = (
            f"{path}: does not fit the manifest and the project any more{listing}\n"
            "Run aotbuild lock, and commit what it writes."
        )
        raise PlanError(msg)
    return lock


_HEADER = "# Written by `aotbuild lock`, in the standard form pylock.toml (PEP 751). Commit it.\n"


@dataclass(frozen=True)
class WrittenLock:
    """A lock beside its manifest; `changed` says whether its text differs from before.

    `local` are the local files that it names.
    """

    file: Path
    lock: Lock
    changed: bool
    local: tuple[str, ...] = ()


def write_locks(
    manifest: Manifest, project: Sequence[str], *, upgrade: bool = False
) -> Iterator[WrittenLock]:
    """Resolve every toolchain, write its lock beside the manifest, and yield it.

    Versions of a valid earlier lock are kept where possible, unless `upgrade`. PlanError gives uv's
    reason.
    """
    folder = folder_of(manifest)
    for wanted, python in _named(manifest, project):
        file = folder / wanted.lock_name
        before = read_regular_text(file, "replace") if os.path.lexists(file) else ""
        kept = before if is_lock(before) and not upgrade else None
        text = _HEADER + compile_lock(wanted, python, folder, kept)
        lock = read_lock(text, str(file), python)
        if text != before:
            write_whole(file, text.encode())
        yield WrittenLock(file, lock, text != before, local_files(text))


def check_locks(manifest: Manifest, project: Sequence[str]) -> Iterator[WrittenLock]:
    """Yield every lock; PlanError for one that is missing or does not fit. Needs no network."""
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


def folder_of(manifest: Manifest) -> Path:
    """Return the folder of a manifest, where its locks are."""
    return Path(manifest.file).absolute().parent
