"""Checks of a recording: whether a package serves its calls, and a clone has its modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.format.temporary import temporary_folder
from aotbuild.record.call_log import CallLog, Tally
from aotbuild.record.specs import avals_in

if TYPE_CHECKING:
    from aotbuild.record.watcher import CallCheck

_GIT_FILES = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
# Seconds for a list of git's files, and for importing modules once.
_MOST = 300.0
_IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as err:
        sys.exit(f"importing {name}: {type(err).__name__}: {str(err).partition(chr(10))[0]}")
"""


def check_with(place: str) -> CallCheck:
    """Return what says why no executable at a place serves a call; empty if one does."""
    import jax
    import numpy as np

    from aotbuild.runtime.api import load

    library = load(place)

    def alive(leaf: Any) -> Any:  # a call has deleted what it donated before it is checked
        if not isinstance(leaf, jax.Array) or not leaf.is_deleted():
            return leaf
        is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended)
        zeros = jax.lax.full if is_key else np.full
        return jax.device_put(zeros(leaf.shape, 0, leaf.dtype), leaf.sharding)

    def check(function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        args, kwargs = jax.tree.map(alive, (args, kwargs))
        names = [f.name for f in library._package.index.functions() if f.call == function]
        errors = [library.explain(name, *args, **kwargs).error for name in names]
        if not errors:
            return f"no function of the package calls {function}"
        return "" if None in errors else str(errors[0])

    return check


def unserved(log: CallLog) -> list[dict[str, Any]]:
    """Return the checked signatures that no executable serves, those that cost most first.

    Of each: `call`, `signature`, how many `calls` it had, and `why` nothing serves it.
    """
    found = []
    for key, why in log.verdicts.items():
        call = log.calls.get(key)
        function = log.functions.get(call.function) if call else None
        if why and call and function:
            words = [f"{a.name} {', '.join(avals_in(a.spec))}" for a in call.arguments]
            words += [f"{name}={value!r}" for name, value in call.statics]
            tally = log.tallies.get(key, Tally())
            facts = {"call": function.call, "signature": ", ".join(words)}
            found.append((tally.seconds, {**facts, "calls": tally.calls, "why": why}))
    return [facts for _, facts in sorted(found, key=lambda pair: -pair[0])]


def missing_in_clone(project: Path, modules: Sequence[str]) -> str:
    """Return why modules cannot be imported where only git's files are; empty if they can.

    New files that git does not ignore are taken for files that will be committed. Also empty if
    there is no repository, and if they cannot be imported in the project itself: this environment
    may be another one than that of the program. subprocess.TimeoutExpired if importing them
    takes too long.
    """
    if not modules or shutil.which("git") is None:
        return ""
    project = project.absolute()
    listed = _run(_GIT_FILES, project)
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    with temporary_folder(what="clone-") as folder:
        for name in filter(lambda name: (project / name).is_file(), names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(project / name, folder / name)
        problem = _import_problem(folder, modules) if names else ""
    if not problem or _import_problem(project, modules):
        return ""
    return problem.replace(f"{folder}{os.sep}", "")


def _import_problem(folder: Path, modules: Sequence[str]) -> str:
    """Return the first error of importing modules from a folder or its src/, as a build does."""
    path = os.pathsep.join((str(folder / "src"), os.environ.get("PYTHONPATH", "")))
    variables = {**os.environ, "PYTHONPATH": path, "AOTBUILD_BUILDING": "1"}
    command = [sys.executable, "-B", "-c", _IMPORT, *modules]
    done = _run(command, folder, variables)
    lines = done.stderr.decode(errors="replace").splitlines()
    return lines[-1] if done.returncode and lines else ""


def _run(
    command: Sequence[str], folder: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.run(
        command, stdin=nothing, cwd=folder, env=env, capture_output=True, check=False, timeout=_MOST
    )
