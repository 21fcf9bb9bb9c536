"""The toolchains of a manifest here: the running environment where it fits, else one of uv's."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from aotbuild.build.environment import (
    Environment,
    Recipe,
    Toolchain,
    environment_of,
    running_platforms,
    running_toolchain,
)
from aotbuild.build.manifest import Manifest
from aotbuild.build.store import key_of
from aotbuild.build.toolchains.cache import cache_folder
from aotbuild.build.toolchains.lock import Lock
from aotbuild.build.toolchains.pythons import find_python, running_python
from aotbuild.build.toolchains.resolve import Say, committed_lock, resolved
from aotbuild.build.toolchains.wanted import Wanted, wanted_toolchains

# Counted up when environments are made in another way, so that no old one is taken.
_FORMAT = 1


def find_environment(
    manifest: Manifest, project: Sequence[str] = (), say: Say = lambda _: None
) -> Environment:
    """Return where a manifest is built: this machine and its toolchains, none of them made yet.

    `project` are the dependencies of the project, as requirements; `say` hears what takes time.
    PlanError says which toolchain cannot be, and why.
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
            toolchains.append(_by_uv(python, lock, file))
            platforms += lock.jaxlib_platforms
    return environment_of(tuple(toolchains), platforms)


def may_be_running(wanted: Wanted, manifest: Manifest) -> bool:
    """Return whether an environment with this Python and that jax alone would be the toolchain."""
    is_here = wanted.python in (None, running_python())
    return is_here and not wanted.special and not committed_lock(wanted, folder_of(manifest))


def folder_of(manifest: Manifest) -> Path:
    """Return the folder of a manifest, where its locks are."""
    return Path(manifest.file).absolute().parent


def _by_uv(python: str, lock: Lock, file: Path | None) -> Toolchain:
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
