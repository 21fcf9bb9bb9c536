"""The environment of each toolchain: the running one where it fits, else one made by uv.

An `ExactToolchain` is a toolchain as another machine can have it. Where the build machine's is the
running environment, the other machine must have installed the same versions. Where it was made from
a lock, uv makes it there, too.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aotbuild.errors import PlanError
from aotbuild.format.dist_info import installed_version
from aotbuild.format.files import naming
from aotbuild.manifest import Manifest
from aotbuild.store.keys import key_of
from aotbuild.toolchains.lock import Lock, local_files, read_lock
from aotbuild.toolchains.resolve import Say, committed_lock, folder_of, resolved
from aotbuild.toolchains.toolchain import (
    Environment,
    Recipe,
    Toolchain,
    environment_of,
    required_toolchain,
    running_platforms,
    running_toolchain,
)
from aotbuild.toolchains.uv import UvFailed, cache_root, find_python, locked, run_uv, running_python
from aotbuild.toolchains.wanted import (
    OWN,
    Wanted,
    pinned_jax,
    wanted_toolchains,
    worker_requirements,
)

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
    is_named = manifest.toolchains or pinned_jax(project)
    running = running_toolchain() if is_named else required_toolchain()
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
    folder = cache_root(os.environ) / "environments" / key_of(inputs)[:32]
    recipe = Recipe(lock.text, str(found.path) if found else python, file)
    interpreter = folder / "bin" / "python"
    jax = dict(lock.versions)["jax"]
    return Toolchain(jax, lock.jaxlib, version, lock.plugins, interpreter, recipe)


# --- on another machine ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ExactToolchain:
    """What `Toolchain` says of one machine, for any.

    `python` is like `3.11`. `versions` are those of jax, its plugins, what a worker imports and
    what the project requires; `lock` is the text of the lock that the toolchain was made from, if
    it was.
    """

    jax: str
    python: str
    versions: tuple[tuple[str, str], ...]
    lock: str | None = None

    @classmethod
    def of(cls, toolchain: Toolchain, project: Iterable[str]) -> ExactToolchain:
        """Return a toolchain of this machine; `project` are the project's dependencies.

        PlanError where its lock names files of this machine.
        """
        python = ".".join(toolchain.python.split(".")[:2])
        if toolchain.recipe is None:
            wanted = ("jax", "jaxlib", *(name for name, _ in toolchain.plugins))
            found = installed_versions((*wanted, *worker_requirements(), *project))
            return cls(toolchain.jax, python, tuple(sorted(found.items())))
        text = toolchain.recipe.lock
        if files := local_files(text):
            msg = f"the lock of {toolchain} names files of this machine: {', '.join(files)}"
            raise PlanError(msg)
        return cls(toolchain.jax, python, (), text)

    def here(self) -> Toolchain:
        """Return it on this machine: the running environment, or one that uv makes now.

        PlanError if this machine cannot have it.
        """
        if self.lock is not None:
            lock = read_lock(self.lock, "the lock of the build", self.python)
            toolchain = by_uv(self.python, lock, None)
            make_environments([toolchain])
            return toolchain
        running = required_toolchain()
        expected = {"Python": self.python, **dict(self.versions)}
        found = {name: installed_version(name) for name, _ in self.versions}
        found["Python"] = running_python()
        if problems := [name for name in expected if expected[name] != found[name]]:
            lines = "".join(
                f"\n  {name}: expected {expected[name]}, found {found[name] or 'none'}"
                for name in problems
            )
            msg = (
                f"its environment is not that of the build machine{lines}\nInstall the same "
                "versions, or name the toolchain in the manifest (toolchains:), which uv makes"
            )
            raise PlanError(msg)
        return running


def installed_versions(requirements: Iterable[str]) -> dict[str, str]:
    """Return the versions that are installed of requirements.

    aotbuild is not among them: workers import that of their machine's build.
    """
    parsed = [Requirement(text) for text in requirements]
    names = {
        str(canonicalize_name(each.name))
        for each in parsed
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    found = {name: installed_version(name) for name in sorted(names - {OWN})}
    return {name: version for name, version in found.items() if version is not None}
