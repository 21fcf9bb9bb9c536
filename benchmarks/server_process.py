"""One server until its executables are ready and have answered once: started by `server.py`.

    python benchmarks/server_process.py WAY FOLDER

Prints a JSON object of milliseconds, of wall clock and of CPU time of all threads, and of peak
memory in MB.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

# The sizes of the 8 executables: lengths of prompts of one sequence, and batches of single tokens.
PREFILL = (32, 64)
DECODE = (1, 2, 3, 4, 6, 8)
_STARTED = time.perf_counter()


def main() -> None:
    """Load all, call each once, print what it took."""
    way, folder = sys.argv[1:]
    found: dict[str, float] = {}
    functions = (_jit if way == "jit" else _aotbuild)(way, folder)
    _mark(found, "ready")
    import numpy as np

    weights = _weights(way, folder)
    for name, arguments in _calls(np):
        result = functions[name](weights, *arguments)
        assert np.isfinite(np.asarray(result[0])).all()
    _mark(found, "answered")
    with open("/proc/self/status") as status:  # noqa: PTH123 - as little as possible is imported
        peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    found["peak_mb"] = int(peak) / 1000
    print(json.dumps(found))


def _mark(found: dict[str, float], name: str) -> None:
    found[f"{name}_ms"] = (time.perf_counter() - _STARTED) * 1e3
    found[f"{name}_cpu_ms"] = time.process_time() * 1e3


def _jit(_: str, __: str) -> dict[str, Any]:
    """Return jitted functions, whose executables are loaded from JAX's cache."""
    import jax
    import jax.numpy as jnp

    model = import_module("chat.model")
    of, weights = jax.ShapeDtypeStruct, model.weights()
    prefill, decode = jax.jit(model.prefill), jax.jit(model.decode)
    for seq in PREFILL:
        prefill.lower(weights, of((1, seq), jnp.int32)).compile()
    for batch in DECODE:
        rest = model.cache(batch), of((batch,), jnp.int32), of((), jnp.int32)
        decode.lower(weights, *rest).compile()
    return {"prefill": prefill, "decode": decode}


def _aotbuild(way: str, folder: str) -> dict[str, Any]:
    """Return functions of the package, whose executables are loaded."""
    import aotbuild

    library = aotbuild.load(f"{folder}/_aot", arrays=way)
    library.preload()
    return {"prefill": library.prefill, "decode": library.decode}


def _weights(way: str, folder: str) -> dict[str, Any]:
    """Return the weights as arrays of the way, as a server holds them."""
    import numpy as np

    tree: dict[str, Any] = {}
    with np.load(f"{folder}/weights.npz") as archive:
        for name, array in archive.items():
            layer, _, leaf = name.partition(".")
            if leaf:
                tree.setdefault(layer, {})[leaf] = array
            else:
                tree[layer] = array
    if way == "numpy":
        return tree
    import jax

    placed: dict[str, Any] = jax.device_put(tree)
    return placed


def _calls(np: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield a function's name and its arguments behind the weights, for each executable."""
    for seq in PREFILL:
        yield "prefill", (np.ones((1, seq), np.int32),)
    for batch in DECODE:
        half = np.zeros((batch, 8, 512, 32), np.float32)
        cache = {f"layer{layer}": {"keys": half, "values": half} for layer in range(8)}
        yield "decode", (cache, np.ones(batch, np.int32), np.int32(3))


if __name__ == "__main__":
    main()
