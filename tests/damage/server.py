"""Loads and calls packages, each in a forked child: nothing is imported two thousand times.

    python server.py CASES.npz

CASES holds `NAME/in…` and `NAME/out…` for calls of the function NAME, or NAME@ANYTHING. Reads
places as JSON lines on stdin, and writes one JSON line each. The child may die of a signal, hang or
answer wrongly; what became of it is the answer.
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

import jax
import numpy as np

import aotbuild
from aotbuild.errors import AotbuildError

# What a child would import at its first call; the last is what jaxlib's LAPACK needs.
EARLY = (
    "aotbuild.runtime.jax.backend",
    "aotbuild.runtime.jax.fallback",
    "aotbuild.runtime.dispatch",
    "aotbuild.runtime.package",
    "aotbuild.platforms.cpu.checks",
    "aotbuild.format.restore",
    "safetensors.numpy",
    "scipy.linalg.cython_lapack",
)
CPU_SECONDS = 5  # more is a hang
WALL_SECONDS = 60.0  # for a child that waits for ever and burns nothing
ANSWER = 1000  # characters, at most


def main() -> None:
    for name in EARLY:
        importlib.import_module(name)
    # jax asks for its plugins in each child: the files of all distributions are read once.
    metadata.entry_points = functools.cache(metadata.entry_points)  # type: ignore[assignment]
    metadata.entry_points(group="jax_plugins")
    cases = dict(np.load(sys.argv[1]))
    warnings.simplefilter("ignore")  # that jax dislikes fork: no backend is there yet
    for line in sys.stdin:
        print(json.dumps(_in_child(json.loads(line), cases)), flush=True)


def _in_child(place: str, cases: dict[str, Any]) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_quiet()
        os.write(writing, _call_all(place, cases).encode())
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


def _call_all(place: str, cases: dict[str, Any]) -> str:
    """Return `right`, `wrong: …`, `refused: …` (by an error of ours) or `raised: …` (any other)."""
    try:
        library = aotbuild.load(Path(place))
        for name in sorted({key.split("/")[0] for key in cases}):
            function = name.partition("@")[0]
            kernel, given = getattr(library, function), _of(cases, f"{name}/in")
            # The second call is one that the C++ cache knows.
            for _ in range(2):
                if not _is_right(kernel(*given), _of(cases, f"{name}/out")):
                    return f"wrong: {function}"
    except AotbuildError as err:
        return f"refused: {type(err).__name__}"
    except BaseException as err:  # noqa: BLE001 (whatever it is, it is the answer)
        return f"raised: {type(err).__name__}: {err}"[:ANSWER]
    return "right"


def _of(cases: dict[str, Any], prefix: str) -> list[Any]:
    return [cases[key] for key in sorted(cases) if key.startswith(prefix)]


def _is_right(result: Any, wanted: list[Any]) -> bool:
    found = [*map(np.asarray, jax.tree.leaves(result))]
    return len(found) == len(wanted) and all(
        have.shape == want.shape
        # Files of numpy have no dtypes of ml_dtypes, whose results are float32 there.
        and (have.dtype == want.dtype or have.dtype.kind == "V")
        and np.allclose(have.astype(want.dtype), want, rtol=1e-5, atol=1e-5)
        for have, want in zip(found, wanted, strict=True)
    )


if __name__ == "__main__":
    main()
