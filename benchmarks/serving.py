"""Measure serving with numpy arrays: what a step of a decode loop costs, and what priming costs.

The package is a small language model: 84 MB of weights as arguments, four sizes of prefill, and
decode with a donated cache of 25 MB.

`decode` runs the loop in blocks that take turns in one process: with numpy's own arrays, with
placed weights, with the cache kept on the device, and with jax's arrays. CPU time counts, because
a server shares its CPUs; the ratio is to the kept cache.

`prime` preloads in fresh processes, which take turns, and calls each size for the first time:
CPU seconds of preload, private memory that it takes (Linux), and the CPU time of a first call over
that of later ones, the worst of all sizes.

    python benchmarks/serving.py [--rounds 5] [--steps 20] [--json]
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from small_package import build_package

import aotbuild

_LENGTHS = (16, 64, 128, 256)
_SOURCE = """
import math

import jax
import jax.numpy as jnp

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH = 6, 512, 8, 4096, 1024


def weights():
    shapes = {
        "qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH), "norm1": (WIDTH,), "norm2": (WIDTH,),
    }
    layers = [{name: jnp.zeros(shape) for name, shape in shapes.items()} for _ in range(LAYERS)]
    return {"embedding": jnp.zeros((VOCABULARY, WIDTH)), "layers": layers}


def cache():
    return [jnp.zeros((2, LENGTH, HEADS, WIDTH // HEADS)) for _ in range(LAYERS)]


def prefill(params, tokens):
    return _run(params, tokens, cache(), 0)


def decode(params, token, cache, position):
    return _run(params, token[None], cache, position)


def _run(params, tokens, cache, position):
    x, changed = params["embedding"][tokens], []
    for layer, before in zip(params["layers"], cache):
        x, after = _block(layer, x, before, position)
        changed.append(after)
    return {"logits": x[-1] @ params["embedding"].T, "cache": changed}


def _block(layer, x, cache, position):
    count = x.shape[0]
    joined = (_normalize(x, layer["norm1"]) @ layer["qkv"]).reshape(count, 3 * HEADS, -1)
    query, key, value = jnp.split(joined, 3, axis=1)
    cache = jax.lax.dynamic_update_slice(cache, jnp.stack([key, value]), (0, position, 0, 0))
    scores = jnp.einsum("thd,lhd->htl", query, cache[0]) / math.sqrt(WIDTH // HEADS)
    seen = jnp.arange(LENGTH)[None, :] <= position + jnp.arange(count)[:, None]
    mixed = jnp.einsum("htl,lhd->thd", jax.nn.softmax(jnp.where(seen, scores, -1e9)), cache[1])
    x = x + mixed.reshape(count, -1) @ layer["out"]
    hidden = jax.nn.gelu(_normalize(x, layer["norm2"]) @ layer["up"])
    return x + hidden @ layer["down"], cache


def _normalize(x, scale):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale
"""
_MANIFEST = f"""
version: 1
package: lm
functions:
  prefill:
    call: lm.model:prefill
    args: [params: {{like: "lm.model:weights"}}, tokens: "i32[length]"]
    dims: {{length: {list(_LENGTHS)}}}
    verify: {{golden: never}}
  decode:
    call: lm.model:decode
    args:
      - params: {{like: "lm.model:weights"}}
      - token: i32[]
      - cache: {{like: "lm.model:cache"}}
      - position: i32[]
    donate: [cache]
    verify: {{golden: never}}
"""
_WARM = 3
# In bytes behind a multiple of 64: where arrays that malloc gave memory for begin.
_AS_NUMPY = 16
_PRIMES: dict[str, Any] = {
    "preload()": False,
    "preload(prime=True)": True,
    'preload(prime="once")': "once",
}

Row = dict[str, Any]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        part, package, how = options.child
        _CHILDREN[part](package, how)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        package = build_package(Path(folder), "lm", _SOURCE, _MANIFEST)
        how = json.dumps([options.rounds, options.steps])
        rows = [*_ask("decode", package, how), *_primes(package, options.rounds)]
    for row in rows:
        print(json.dumps(row) if options.json else _describe(row))
    return 0


def _ask(part: str, package: Path, how: str) -> list[Row]:
    command = [sys.executable, __file__, "--child", part, str(package), how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows: list[Row] = json.loads(done.stdout)
    return rows


def _primes(package: Path, rounds: int) -> list[Row]:
    samples: dict[str, list[Row]] = {how: [] for how in _PRIMES}
    for _ in range(rounds):
        for how in _PRIMES:
            samples[how] += _ask("prime", package, how)
    return [
        {"part": "prime", "after": how, **{key: median(r[key] for r in found) for key in found[0]}}
        for how, found in samples.items()
    ]


# --- the loop -----------------------------------------------------------------------------------


def _decode(package: str, how: str) -> None:
    logging.getLogger("aotbuild").setLevel(logging.ERROR)
    rounds, steps = json.loads(how)
    library, with_jax = aotbuild.load(package, arrays="numpy"), aotbuild.load(package)
    usual, cache = _weights(_AS_NUMPY), _cache(_AS_NUMPY)
    placed, jax_placed = library.place(usual), with_jax.place(usual)
    kept = library.decode.keeping("cache")
    ways: dict[str, Callable[[], float]] = {
        "numpy's own arrays": lambda: _loop(library.decode, usual, cache, steps),
        "placed weights": lambda: _loop(library.decode, placed, library.place(cache), steps),
        "placed weights, kept cache": lambda: _loop(kept, placed, library.place(cache), steps),
        "jax's arrays": lambda: _loop(with_jax.decode, jax_placed, with_jax.place(cache), steps),
    }
    samples: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds + 1):
        for way, run in ways.items():
            samples[way].append(run())
    times = {way: median(taken[1:]) for way, taken in samples.items()}
    base = times["placed weights, kept cache"]
    rows = [
        {"part": "decode", "way": way, "cpu_ms": time, "ratio": time / base}
        for way, time in times.items()
    ]
    print(json.dumps(rows))


def _loop(decode: Any, params: Any, cache: Any, steps: int) -> float:
    """Return the CPU time of a step, in ms."""
    for number in range(steps + _WARM):
        if number == _WARM:
            start = process_time()
        result = decode(params, np.int32(1), cache, np.int32(number))
        np.asarray(result["logits"])
        cache = result["cache"]
    return (process_time() - start) / steps * 1e3


def _weights(apart: int) -> Any:
    width, vocabulary, layers = 512, 4096, 6
    shapes = {
        "qkv": (width, 3 * width),
        "out": (width, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
        "norm1": (width,),
        "norm2": (width,),
    }
    return {
        "embedding": _array((vocabulary, width), apart),
        "layers": [{n: _array(shape, apart) for n, shape in shapes.items()} for _ in range(layers)],
    }


def _cache(apart: int) -> Any:
    return [_array((2, 1024, 8, 64), apart, 0) for _ in range(6)]


def _array(shape: tuple[int, ...], apart: int, values: Any = None) -> Any:
    """Return an array that begins `apart` bytes behind a multiple of 64."""
    size = int(np.prod(shape))
    space = np.empty(4 * size + 128, np.uint8)
    start = -space.ctypes.data % 64 + apart
    array = space[start : start + 4 * size].view(np.float32).reshape(shape)
    array[...] = (
        np.random.default_rng(0).standard_normal(shape, np.float32) / 40
        if values is None
        else values
    )
    return array


# --- priming ------------------------------------------------------------------------------------


def _prime(package: str, how: str) -> None:
    library = aotbuild.load(package, arrays="numpy")
    library.ready()
    params, cache = library.place(_weights(0)), library.place(_cache(0))
    before, start = _private_mb(), process_time()
    library.preload(prime=_PRIMES[how])
    row = {"cpu_s": process_time() - start, "private_mb": _private_mb() - before}
    prompts = [np.zeros(length, np.int32) for length in _LENGTHS]
    calls: list[Callable[[], Any]] = [
        partial(library.decode, params, np.int32(1), cache, np.int32(3)),
        *(partial(library.prefill, params, tokens) for tokens in prompts),
    ]
    row["first_ratio"] = max(map(_first_over_later, calls))
    print(json.dumps([row]))


def _first_over_later(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(8):
        start = process_time()
        call()
        times.append(process_time() - start)
    return times[0] / median(times[1:])


def _private_mb() -> float:
    """Return the memory that this process shares with no other; 0 where Linux does not say."""
    rollup = Path("/proc/self/smaps_rollup")
    lines = rollup.read_text().splitlines() if rollup.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _describe(row: Row) -> str:
    cells = (f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    return ", ".join(cells)


_CHILDREN: dict[str, Callable[[str, str], None]] = {"decode": _decode, "prime": _prime}

if __name__ == "__main__":
    sys.exit(main())
