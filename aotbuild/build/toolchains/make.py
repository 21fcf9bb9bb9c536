"""Make the environment of a toolchain, once: in its final place, under a lock, marked when done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from aotbuild.build.environment import Toolchain
from aotbuild.build.toolchains.cache import locked
from aotbuild.build.toolchains.uv import UvFailed, run_uv
from aotbuild.errors import PlanError

_MARKER = "complete"
_LOCK = "pylock.toml"
# uv calls its support of the standard lock a preview; naming it keeps it from warning.
_PREVIEW = ("--preview-features", "pylock")


def make_ready(
    toolchains: Iterable[Toolchain], say: Callable[[str], None] = lambda _: None
) -> None:
    """Make every environment that is not there yet; `say` hears of each.

    A virtual environment has absolute paths inside, so it is made where it stays; one that an
    interrupted build left is made again. PlanError has uv's reason.
    """
    for toolchain in toolchains:
        if toolchain.recipe is None or toolchain.interpreter is None:
            continue
        folder = toolchain.interpreter.parent.parent
        if _is_complete(folder, toolchain.interpreter):
            continue
        with locked(folder):
            # Another build may have made it while this one waited.
            if not _is_complete(folder, toolchain.interpreter):
                say(f"making the environment of {toolchain}")
                _make(folder, toolchain)


def _is_complete(folder: Path, interpreter: Path) -> bool:
    # Through the link: the Python that it was made from may be gone.
    return (folder / _MARKER).exists() and interpreter.exists()


def _make(folder: Path, toolchain: Toolchain) -> None:
    recipe = toolchain.recipe
    assert recipe is not None, "only what has a recipe is made"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        run_uv(
            ("venv", "--quiet", "--no-project", "--python", recipe.python, folder), folder.parent
        )
        (folder / _LOCK).write_text(recipe.lock, encoding="utf-8")
        _fill(folder)
    except UvFailed as err:
        reason = "\n".join(f"  {line}" for line in str(err).splitlines())
        msg = f"uv cannot make the environment of {toolchain}\n{reason}\n{_remedy(recipe.python)}"
        raise PlanError(msg) from err
    (folder / _MARKER).touch()


def _fill(folder: Path) -> None:
    """Install what the lock says: from uv's cache if all is there, else from the index.

    uv asks an index again for what a lock names, and where that does not say how long an answer
    holds, it downloads a package that it has and keeps both.
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
