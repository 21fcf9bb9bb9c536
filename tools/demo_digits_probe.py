"""Classify the held-out digits in this process and report as one line of JSON.

    python demo_digits_probe.py aot|jit STARTED

`aot` calls the executables of the installed wheel, `jit` has jax compile the same function.
STARTED is `time.time()` of the moment the parent started this process. Runs where the digits
wheel is installed; `demo_digits.py` compares what it reports.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

BATCH = 32
# Names in jax/_src/dispatch.py; the same in jax 0.10.2 and 0.12.0.
EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "traces",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowerings",
    "/jax/core/compile/backend_compile_duration": "compilations",
}


def main(way: str, started: float) -> None:
    """Print accuracy, seconds to the first result, compile counts and all outputs."""
    counts = count_compilations()
    predict = {"aot": precompiled, "jit": jitted}[way]()

    import numpy as np
    from digits.data import batches, load_heldout, load_params

    params = load_params()
    images, labels = load_heldout()
    outputs, seconds = [], 0.0
    for batch, count in batches(images, BATCH):
        outputs.append(np.asarray(predict(params, batch))[:count])
        seconds = seconds or time.time() - started
    scores = np.concatenate(outputs)
    report = {
        "accuracy": float((scores.argmax(axis=1) == labels).mean()),
        "images": len(labels),
        "seconds": seconds,
        "counts": {name: counts[name] for name in EVENTS.values()},
        "outputs": [float(score) for score in scores.flat],
    }
    print(json.dumps(report))


def count_compilations() -> Counter[str]:
    """Return counts that grow whenever jax traces, lowers or compiles from now on."""
    import jax

    counts: Counter[str] = Counter()

    def listener(event: str, *_: float, **__: str | int) -> None:
        if event in EVENTS:
            counts[EVENTS[event]] += 1

    jax.monitoring.register_event_duration_secs_listener(listener)
    return counts


def precompiled() -> Callable[..., Any]:
    """Return `predict` as the wheel carries it."""
    import aotbuild

    predict: Callable[..., Any] = aotbuild.load("digits").predict
    return predict


def jitted() -> Callable[..., Any]:
    """Return `predict` as jax compiles it at the first call."""
    import jax
    from digits.model import predict

    jitted_predict: Callable[..., Any] = jax.jit(predict)
    return jitted_predict


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
