"""Write a reply with the language model in this process and report as one line of JSON.

    python demo_lm_probe.py WAY STARTED WEIGHTS FOLDER

WAY is one of `WAYS`, STARTED is `time.time()` of the moment the parent started this process.
`prepare` writes into FOLDER what `cache` and `export` read. Runs where the wheel of
`example_project/lm` is installed; `demo_lm.py` compares what it reports.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

PROMPT = b"Once upon a time, there was a compiler"
LENGTH = 16
# Names in jax/_src/dispatch.py and jax/_src/compiler.py; the same in jax 0.10.2 and 0.12.0.
TRACE = "/jax/core/compile/jaxpr_trace_duration"
LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILE = "/jax/core/compile/backend_compile_duration"
CACHE_HIT = "/jax/compilation_cache/cache_hits"


class Model(NamedTuple):
    """Two functions, what puts weights where they want them, and what reads weights."""

    prefill: Callable[..., Any]
    decode: Callable[..., Any]
    place: Callable[[Any], Any]
    read: Callable[[str], dict[str, Any]]


def main(way: str, started: float, weights: str, folder: Path) -> None:
    """Print the seconds to the first and the last token, the counts and all scores."""
    counts = Counter[str]() if way == "numpy" else count_events()
    model = WAYS[way](folder)

    from tinylm.generate import generate
    from tinylm.weights import load_params

    params = model.place(load_params(weights, model.read))
    scores, seconds = [], []
    for each in islice(generate(model.prefill, model.decode, params, PROMPT), LENGTH):
        seconds.append(time.time() - started)
        scores.append(each)
    report = {
        "first": seconds[0],
        "last": seconds[-1],
        "counts": {"traced": counts[TRACE], "lowered": counts[LOWER]}
        # jax reports what it takes from its cache as compiled, too.
        | {"compiled": counts[COMPILE] - counts[CACHE_HIT], "from cache": counts[CACHE_HIT]},
        "jax": "jax" in sys.modules,
        "scores": [float(number) for each in scores for number in each],
    }
    print(json.dumps(report))


def count_events() -> Counter[str]:
    """Return counts that grow with what jax reports from now on."""
    import jax

    counts: Counter[str] = Counter()

    def listener(event: str, *_: float, **__: str | int) -> None:
        counts[event] += 1

    jax.monitoring.register_event_duration_secs_listener(listener)
    jax.monitoring.register_event_listener(listener)
    return counts


def with_jax(prefill: Callable[..., Any], decode: Callable[..., Any]) -> Model:
    """Return a model whose arrays are jax's.

    They are committed to their device: jax would compile anew where some are and others are not.
    """
    import jax
    from safetensors.numpy import load_file

    device = jax.devices()[0]
    return Model(prefill, decode, lambda tree: jax.device_put(tree, device), load_file)


def jit(_folder: Path) -> Model:
    """Have jax trace and compile at the first calls."""
    import jax
    from tinylm.model import decode, prefill

    return with_jax(jax.jit(prefill), jax.jit(decode, donate_argnames="cache"))


def cache(folder: Path) -> Model:
    """Have jax trace, and take what an earlier process compiled."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder / "cache"))
    # By default jax doesn't keep what compiled within a second.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    return jit(folder)


def export(folder: Path) -> Model:
    """Have jax compile what an earlier process traced and lowered."""
    import jax
    import jax.export

    prefill, decode = (
        jax.export.deserialize(bytearray((folder / f"{name}.export").read_bytes())).call
        for name in ("prefill", "decode")
    )
    return with_jax(jax.jit(prefill), jax.jit(decode, donate_argnums=1))


def write_exports(weights: str, folder: Path) -> None:
    """Write what `export` reads."""
    import jax
    import jax.export
    import numpy as np
    from tinylm.generate import padded
    from tinylm.model import empty_cache
    from tinylm.weights import load_params

    params, number = load_params(weights), np.int32(0)
    tokens = padded(np.zeros(len(PROMPT) - 1, np.int32))[None]
    prefill, decode, *_ = jit(folder)
    calls = {
        "prefill": (prefill, (params, tokens)),
        "decode": (decode, (params, empty_cache(1), tokens[:, 0], number)),
    }
    for name, (function, arguments) in calls.items():
        exported = jax.export.export(function)(*arguments)
        (folder / f"{name}.export").write_bytes(exported.serialize())


def jax_backend(_folder: Path) -> Model:
    """Call the executables of the wheel with jax's arrays."""
    import aotbuild

    lib = aotbuild.load("tinylm")
    return with_jax(lib.prefill, lib.decode)


def numpy_backend(_folder: Path) -> Model:
    """Call the executables of the wheel with numpy's arrays."""
    from safetensors.numpy import load_file

    import aotbuild

    lib = aotbuild.load("tinylm", arrays="numpy")
    prefill, decode = lib.prefill.keeping(), lib.decode.keeping(1)
    return Model(prefill, decode, lib.place, load_file)


WAYS = {"jit": jit, "cache": cache, "export": export, "jax": jax_backend, "numpy": numpy_backend}

if __name__ == "__main__":
    way, started, weights, folder = sys.argv[1:]
    if way == "prepare":
        write_exports(weights, Path(folder))
        way = "cache"
    main(way, float(started), weights, Path(folder))
