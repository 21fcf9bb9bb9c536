"""Loads and calls packages, each in a forked child: nothing is imported two thousand times.

    python server.py CASES.npz jax|numpy

CASES holds `NAME/in…` and `NAME/out…` for calls of the function NAME, or NAME@ANYTHING. Reads JSON
lines {"place": …, "functions": {function: NAME} or null, "path": [folder…], "load": {…}} on stdin,
writes one JSON line each: "functions" are called with the cases of NAME, "path" is where to import
from, and "load" what `aotbuild.load` is given. The child may die of a signal, hang or answer
wrongly; what became of it is the answer.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import resource
import select
import signal
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import aotbuild
from aotbuild.errors import AotbuildError

# What a child would import at its first call; the last is what jaxlib's LAPACK needs.
EARLY = (
    "aotbuild.runtime.dispatch",
    "aotbuild.runtime.package",
    "aotbuild.platforms.cpu.checks",
    "aotbuild.format.restore",
    "safetensors.numpy",
    "scipy.linalg.cython_lapack",
)
OF_BACKEND = {
    "jax": (
        "jax",
        "aotbuild.runtime.jax.backend",
        "aotbuild.runtime.jax.backend",
        "aotbuild.runtime.jax.fallback",
    ),
    "numpy": ("aotbuild.runtime.numpy.backend",),
}
CPU_SECONDS = 5  # more is a hang
WALL_SECONDS = 60.0  # for a child that waits for ever and burns nothing
ANSWER = 4000  # characters, at most


def main() -> None:
    path, arrays = sys.argv[1:]
    for name in (*OF_BACKEND[arrays], *EARLY):
        importlib.import_module(name)
    # jax asks for its plugins in each child: the files of all distributions are read once.
    metadata.entry_points = functools.cache(metadata.entry_points)  # type: ignore[assignment]
    metadata.entry_points(group="jax_plugins")
    cases = dict(np.load(path))
    warnings.simplefilter("ignore")  # that jax dislikes fork: no backend is there yet
    for line in sys.stdin:
        print(json.dumps(_in_child(json.loads(line), cases, arrays)), flush=True)


def _in_child(job: dict[str, Any], cases: dict[str, Any], arrays: str) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_quiet()
        os.write(writing, _call_all(job, cases, arrays).encode())
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], WALL_SECONDS)
    if not ready:
        os.kill(child, signal.SIGKILL)
    answer = os.read(reading, 4 * ANSWER).decode() if ready else "hang"
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and answer != "hang":
        name = signal.Signals(os.WTERMSIG(status)).name
        return "hang" if name == "SIGXCPU" else f"signal {name}"
    return answer


def _be_quiet() -> None:
    """No core dumps, no words, and an end to every loop."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _call_all(job: dict[str, Any], cases: dict[str, Any], arrays: str) -> str:
    """Return `right`, `wrong: …`, `refused: …` (an error of ours) or `raised: …` (any other)."""
    sys.path[:0] = job["path"]
    try:
        library = aotbuild.load(Path(job["place"]), arrays=arrays, **job["load"])
        for function, name in _calls(job["functions"], cases):
            kernel, given = getattr(library, function), _of(cases, f"{name}/in")
            # The second call is one that the C++ cache knows.
            for _ in range(2):
                if not _is_right(kernel(*given), _of(cases, f"{name}/out")):
                    return f"wrong: {function}"
    except AotbuildError as err:
        return f"refused: {type(err).__name__}: {err}"[:ANSWER]
    except BaseException as err:  # noqa: BLE001 (whatever it is, it is the answer)
        return f"raised: {type(err).__name__}: {err}"[:ANSWER]
    return "right"


def _calls(functions: dict[str, str] | None, cases: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (function, case) of each call: by default, one for each case."""
    names = sorted({key.split("/")[0] for key in cases})
    known = functions or {name.partition("@")[0]: name.partition("@")[0] for name in names}
    return [
        (function, name)
        for function, of in known.items()
        for name in names
        if name.partition("@")[0] == of
    ]


def _of(cases: dict[str, Any], prefix: str) -> list[Any]:
    return [cases[key] for key in sorted(cases) if key.startswith(prefix)]


def _is_right(result: Any, wanted: list[Any]) -> bool:
    found = [*map(np.asarray, _leaves(result))]
    return len(found) == len(wanted) and all(
        have.shape == want.shape
        # Files of numpy have no dtypes of ml_dtypes, whose results are float32 there.
        and (have.dtype == want.dtype or have.dtype.kind == "V")
        and np.allclose(have.astype(want.dtype), want, rtol=1e-5, atol=1e-5)
        for have, want in zip(found, wanted, strict=True)
    )


def _leaves(result: Any) -> list[Any]:
    if "jax" in sys.modules:
        return list(sys.modules["jax"].tree.leaves(result))
    if isinstance(result, dict):
        return [leaf for key in sorted(result) for leaf in _leaves(result[key])]
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in _leaves(part)]
    return [] if result is None else [result]


if __name__ == "__main__":
    main()
