"""Compile the signatures of a project with jax alone: in one process, or as a build has to do it.

    python signatures.py FILE jit|floor

FILE has `NUMBER`, and `signature(number)`, which imports the project's module and returns a
function, its arguments, and whether a build computes golden outputs of it.

`jit` is what a program does that compiles them. `floor` is the least that a build can do: jax is
imported once; two processes at a time compile each signature in a fork of its own, beside another
fork that lowers it once more; what has golden outputs is compiled a second time.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import jax


def main() -> None:
    """Compile every signature that the file names."""
    file, way = sys.argv[1:]
    sys.path.insert(0, str(Path.cwd()))
    found = runpy.run_path(file)
    if way == "jit":
        for number in range(found["NUMBER"]):
            function, arguments, _ = found["signature"](number)
            jax.jit(function).lower(*arguments).compile()
        return
    reading, writing = os.pipe()
    os.write(writing, bytes(range(found["NUMBER"])))
    os.close(writing)
    workers = [_fork(lambda: _work(reading, found["signature"])) for _ in range(2)]
    _wait(workers)


def _work(reading: int, signature: Any) -> None:
    while number := os.read(reading, 1):
        lowers = _fork(lambda n=number[0]: _lower(*signature(n)))
        compiles = _fork(lambda n=number[0]: _compile(*signature(n)))
        _wait([lowers, compiles])


def _lower(function: Any, arguments: Any, _: bool) -> None:
    jax.jit(function).lower(*arguments)


def _compile(function: Any, arguments: Any, is_golden: bool) -> None:
    jax.jit(function).lower(*arguments).compile()
    if is_golden:
        jax.jit(lambda *given: function(*given)).lower(*arguments).compile()


def _fork(run: Any) -> int:
    child = os.fork()
    if child == 0:
        run()
        os._exit(0)
    return child


def _wait(forks: list[int]) -> None:
    for fork in forks:
        if os.waitpid(fork, 0)[1]:
            sys.exit("a fork failed")


if __name__ == "__main__":
    main()
