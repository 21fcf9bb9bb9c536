"""Loads and calls packages, each in a forked child: nothing is imported two thousand times.

Reads JSON lines {"place": …, "trust": [path…]} on stdin, writes one JSON line each. The child may
die of a signal, hang or answer wrongly; what became of it is the answer.
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
    "aotbuild.runtime.dispatch",
    "aotbuild.runtime.kernel",
    "aotbuild.platforms.cpu.checks",
    "aotbuild.runtime.backends.jax.backend",
    "aotbuild.runtime.backends.jax.executables",
    "aotbuild.runtime.loader",
    "aotbuild.runtime.backends.jax.fallback",
    "safetensors.numpy",
    "scipy.linalg.cython_lapack",
)
CPU_SECONDS = 5  # more is a hang
WALL_SECONDS = 60.0  # for a child that waits for ever and burns nothing


def main() -> None:
    for name in EARLY:
        importlib.import_module(name)
    # jax asks for its plugins in each child: the files of all distributions are read once.
    metadata.entry_points = functools.cache(metadata.entry_points)  # type: ignore[assignment]
    metadata.entry_points(group="jax_plugins")
    cases = np.load(sys.argv[1])
    warnings.simplefilter("ignore")  # that jax dislikes fork: no backend is there yet
    for line in sys.stdin:
        print(json.dumps(_in_child(json.loads(line), cases)), flush=True)


def _in_child(job: dict[str, Any], cases: Any) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_quiet()
        os.write(writing, _call_all(job, cases).encode())
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], WALL_SECONDS)
    if not ready:
        os.kill(child, signal.SIGKILL)
    answer = os.read(reading, 4096).decode() if ready else "hang"
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


def _call_all(job: dict[str, Any], cases: Any) -> str:
    """Return `right`, `wrong: …`, `refused: …` (an error of ours) or `raised: …` (any other)."""
    try:
        library = aotbuild.load(Path(job["place"]), trust=job["trust"] or None)
        for name in sorted({key.split("/")[0] for key in cases.files}):
            function, _, _ = name.partition("@")
            result = getattr(library, function)(cases[f"{name}/in"])
            for index, leaf in enumerate(jax.tree.leaves(result)):
                wanted = cases[f"{name}/out{index}"]
                if not np.allclose(leaf, wanted, rtol=1e-5, atol=1e-5):
                    return f"wrong: {function}"
    except AotbuildError as err:
        return f"refused: {type(err).__name__}"
    except BaseException as err:  # noqa: BLE001 (whatever it is, it is the answer)
        return f"raised: {type(err).__name__}: {err}"[:4000]
    return "right"


if __name__ == "__main__":
    main()
