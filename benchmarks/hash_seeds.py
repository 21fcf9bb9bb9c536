"""Count the byte sequences that one program compiles to, by what is done about XLA's hash seeds.

Each process compiles each program twice, in random order, and calls it. A row has, for each way,
how many executables are different, of how many, and the least time of a call in microseconds.

    python benchmarks/hash_seeds.py [--processes 30] [--ways as-it-is thread fixed no-kernels]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from time import perf_counter
from typing import Any

# As it is; each compilation in a new thread; as in builds; no loop becomes one kernel.
_WAYS = ("as-it-is", "thread", "fixed", "no-kernels")
_NO_KERNELS = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=0"
_CALLS, _ROUNDS = 200, 5

Found = dict[str, tuple[list[str], float]]


def main() -> None:
    """Run the processes, and print a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=30)
    parser.add_argument("--ways", nargs="+", choices=_WAYS, default=_WAYS)
    parser.add_argument("--child", choices=_WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_child(options.child)))
        return
    found = {way: [_process(way) for _ in range(options.processes)] for way in options.ways}
    for program in sorted(next(iter(found.values()))[0]):
        print(f"{program:12}", *(f"{way}: {_row(found[way], program)}" for way in found), sep="  ")


def _process(way: str) -> Found:
    variables = {"JAX_PLATFORMS": "cpu", "PJRT_NPROC": "16"}
    variables |= {"XLA_FLAGS": _NO_KERNELS} if way == "no-kernels" else {}
    command = [sys.executable, __file__, "--child", way]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def _row(found: list[Found], program: str) -> str:
    made = [digest for process in found for digest in process[program][0]]
    time = min(process[program][1] for process in found)
    return f"{len(set(made)):3} of {len(made):3}, {time:6.1f} us"


def _child(way: str) -> Found:
    import jax
    from jaxlib.version import __version__ as jaxlib

    from aotbuild.platforms.cpu.hash_seeds import fix_seeds

    jax.config.update("jax_traceback_in_locations_limit", 0)
    if way == "fixed" and not fix_seeds("libjax_common.so", jaxlib):
        sys.exit("the seeds cannot be fixed here")
    programs = _programs()
    found: Found = {name: ([], float("inf")) for name in programs}
    for name in random.sample([*programs, *programs], 2 * len(programs)):
        function, inputs = programs[name]
        if way == "thread":
            with ThreadPoolExecutor(1) as thread:
                compiled, digest = thread.submit(_compile, function, inputs, jaxlib).result()
        else:
            compiled, digest = _compile(function, inputs, jaxlib)
        digests, least = found[name]
        found[name] = ([*digests, digest], min(least, _time(compiled, inputs)))
    return found


def _compile(function: Any, inputs: tuple[Any, ...], jaxlib: str) -> tuple[Any, str]:
    import jax

    from aotbuild.worker.private import serialize_executable
    from aotbuild.worker.thunk_rewrite.canonical import canonical

    compiled = jax.jit(lambda *args: function(*args)).lower(*inputs).compile()
    return compiled, sha256(canonical(serialize_executable(compiled), jaxlib)).hexdigest()


def _time(compiled: Any, inputs: tuple[Any, ...]) -> float:
    import jax

    least = float("inf")
    for _ in range(_ROUNDS):
        start = perf_counter()
        for _ in range(_CALLS):
            result = compiled(*inputs)
        jax.block_until_ready(result)
        least = min(least, (perf_counter() - start) / _CALLS * 1e6)
    return least


def _programs() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    import jax
    import jax.numpy as jnp

    def scan(count: int) -> Any:
        def step(carried: tuple[Any, ...], y: Any) -> tuple[tuple[Any, ...], Any]:
            mixed = (jnp.sin(c) + carried[(7 * i + 3) % count] * y for i, c in enumerate(carried))
            return tuple(mixed), sum(c.sum() for c in carried)

        return lambda x: jax.lax.scan(step, tuple(x[i] for i in range(count)), jnp.arange(7.0))

    key, square = jnp.array([1, 2], "uint32"), jnp.eye(6) + 0.1
    return {
        "permutation": (lambda k: jax.random.permutation(k, 64), (key,)),
        "split": (lambda k: jax.random.split(k, 10), (key,)),
        "choice": (lambda k: jax.random.choice(k, 50, (8,), replace=False), (key,)),
        "gamma": (lambda k: jax.random.gamma(k, 2.0, (3,)), (key,)),
        "normal": (lambda k: jax.random.normal(k, (3,)), (key,)),
        "scan of 2": (scan(2), (jnp.ones((2, 3)),)),
        "scan of 12": (scan(12), (jnp.ones((12, 3)),)),
        "solve": (jnp.linalg.solve, (square, jnp.ones(6))),
        "expm": (jax.scipy.linalg.expm, (square,)),
        "fft": (jnp.fft.fft, (jnp.arange(8.0),)),
        "sort": (jnp.sort, (jnp.arange(80.0),)),
    }


if __name__ == "__main__":
    main()
