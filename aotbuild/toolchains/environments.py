"""The environment of each toolchain: the running one where it fits, else one made by uv."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.format.files import naming
from aotbuild.manifest import Manifest
from aotbuild.store.keys import key_of
from aotbuild.toolchains.lock import Lock
from aotbuild.toolchains.resolve import Say, committed_lock, folder_of, resolved
from aotbuild.toolchains.toolchain import (
    Environment,
    Recipe,
    Toolchain,
    environment_of,
    running_platforms,
    running_toolchain,
)
from aotbuild.toolchains.uv import (
    UvFailed,
    cache_folder,
    find_python,
    locked,
    run_uv,
    running_python,
)
from aotbuild.toolchains.wanted import Wanted, wanted_toolchains

_MARKER = "complete"
_LOCK = "pylock.toml"
# uv calls its support of the standard lock a preview; naming it keeps it from warning.
_PREVIEW = ("--preview-features", "pylock")


def make_environments(
    toolchains: Iterable[Toolchain], say: Callable[[str], None] = lambda _: None
) -> None:
    """Make every environment that does not exist yet; `say` is called for each.

    A virtual environment contains absolute paths, so it is made in its final place. One that an
    interrupted build left is made again. PlanError gives uv's reason.
    """
    for toolchain in toolchains:
        if toolchain.recipe is None or toolchain.interpreter is None:
            continue
        folder = toolchain.interpreter.parent.parent
        if _is_complete(folder, toolchain.interpreter):
            continue
        with locked(folder, say):
            # Another build may have made it while this one waited for the lock.
            if not _is_complete(folder, toolchain.interpreter):
                say(f"making the environment of {toolchain}")
                start = time.monotonic()
                _make(folder, toolchain)
                say(f"made in {time.monotonic() - start:.1f} s")


def _is_complete(folder: Path, interpreter: Path) -> bool:
    # exists() follows the link: the Python that it was made from may be gone.
    return (folder / _MARKER).exists() and interpreter.exists()


def _make(folder: Path, toolchain: Toolchain) -> None:
    recipe = toolchain.recipe
    assert recipe is not None, "only what has a recipe is made"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        run_uv(
            ("venv", "--quiet", "--no-project", "--python", recipe.python, folder), folder.parent
        )
        with naming(folder / _LOCK):
            (folder / _LOCK).write_text(recipe.lock, encoding="utf-8")
        _fill(folder)
    except UvFailed as err:
        reason = "\n".join(f"  {line}" for line in str(err).splitlines())
        msg = f"uv cannot make the environment of {toolchain}\n{reason}\n{_remedy(recipe.python)}"
        raise PlanError(msg) from err
    (folder / _MARKER).touch()


def _fill(folder: Path) -> None:
    """Install what the lock says: from uv's cache if it has everything, else from the index.

    Asked for a locked package, uv asks the index again. If the index sets no lifetime for its
    answers, uv downloads a package it already has, and keeps both.
    """
    sync = ("pip", "sync", "--quiet", *_PREVIEW, "--strict", "--compile-bytecode")
    place = ("--python", folder / "bin" / "python", folder / _LOCK)
    try:
        run_uv((*sync, "--offline", *place), folder.parent)
    except UvFailed:
        run_uv((*sync, *place), folder.parent)


def _remedy(python: str) -> str:
    if Path(python).is_absolute():
        return "It needs the package index of its lock, or uv's cache of it."
    return f"Install Python {python}, or let uv download it, which needs the network."


# Increase it when environments are made in another way, so that old ones are not used.
_FORMAT = 1


def find_environment(
    manifest: Manifest, project: Sequence[str] = (), say: Say = lambda _: None
) -> Environment:
    """Return where a manifest is built: this machine and its toolchains, not made yet.

    `project` are the dependencies of the project, as requirements; `say` gets a line about each
    slow step. PlanError says which toolchain cannot be had, and why.
    """
    running = running_toolchain(needed=not manifest.toolchains)
    folder = folder_of(manifest)
    toolchains: list[Toolchain] = []
    platforms: list[str] = []
    for wanted in wanted_toolchains(manifest, project, running):
        if running and wanted.is_met_by(running) and not committed_lock(wanted, folder):
            toolchains.append(running)
            platforms += running_platforms()
        else:
            python = wanted.python or running_python()
            lock, file = resolved(wanted, python, folder, say)
            toolchains.append(by_uv(python, lock, file))
            platforms += lock.jaxlib_platforms
    return environment_of(tuple(toolchains), platforms)


def may_be_running(wanted: Wanted, manifest: Manifest) -> bool:
    """Return whether this Python, with the right jax and nothing else, would be the toolchain."""
    is_here = wanted.python in (None, running_python())
    return is_here and not wanted.special and not committed_lock(wanted, folder_of(manifest))


def by_uv(python: str, lock: Lock, file: Path | None) -> Toolchain:
    """Return the toolchain that uv makes of a lock; `file` is the lock's, if it is committed."""
    found = find_python(python)
    version = found.version if found else python
    inputs = {
        "format": _FORMAT,
        "lock": lock.text,
        "python": version,
        "machine": platform.machine(),
    }
    folder = cache_folder() / "environments" / key_of(inputs)[:32]
    recipe = Recipe(lock.text, str(found.path) if found else python, file)
    interpreter = folder / "bin" / "python"
    jax = dict(lock.versions)["jax"]
    return Toolchain(jax, lock.jaxlib, version, lock.plugins, interpreter, recipe)
