"""Measure first calls of LAPACK and of many convolutions beside jit with its persistent cache warm.

`gp` is a Gaussian process (cholesky, triangular solves, eigh, svd), `resnet` a training step of a
ResNet with 17 convolutions. Each sample is a fresh process that imports what it needs, makes the
first call and a second one. The processes take turns; medians are printed, in ms, with ratios to
`jit` that are paired by round. `first` goes from the loaded library, or the function under jit, to
the first result; `made` is what the first call needs more than the second, in CPU time of all
threads; `lapack` and `load` are parts of it: binding LAPACK, and giving the bytes to XLA.

    python benchmarks/beside_cache.py [--rounds 5] [--programs gp resnet] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from small_package import build_package

_SOURCE = """
import numpy as np

_SHAPES = [(7, 3, 64)]
for _i, _o in ((64, 64), (64, 128), (128, 256), (256, 512)):
    _SHAPES += [(3, _i, _o), (3, _o, _o), (3, _o, _o), (3, _o, _o)]


def weights():
    rng = np.random.default_rng(0)
    make = lambda k, i, o: rng.normal(size=(k, k, i, o)).astype(np.float32) / (k * i**0.5)
    return [make(*shape) for shape in _SHAPES]


def images():
    rng = np.random.default_rng(1)
    return rng.normal(size=(4, 32, 32, 3)).astype(np.float32), np.arange(4, dtype=np.int32)


def points():
    rng = np.random.default_rng(2)
    sizes = ((64, 3), (64,), (16, 3))
    return tuple(rng.normal(size=size).astype(np.float32) for size in sizes)


def _conv(x, w, stride=1):
    import jax

    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (stride,) * 2, "SAME", dimension_numbers=numbers)


def _loss(ws, x, labels):
    import jax
    import jax.numpy as jnp

    x = jax.nn.relu(_conv(x, ws[0], 2))
    for i in range(1, len(ws), 2):
        y = jax.nn.relu(_conv(x, ws[i], 1 + (ws[i].shape[2] != ws[i].shape[3])))
        y = y - y.mean((0, 1, 2))
        z = _conv(y * jax.lax.rsqrt((y * y).mean((0, 1, 2)) + 1e-5), ws[i + 1])
        x = z + (x if x.shape == z.shape else 0)
    chances = jax.nn.log_softmax(x.mean((1, 2)))
    return -jnp.take_along_axis(chances, labels[:, None], 1).mean()


def resnet(ws, x, labels):
    import jax

    loss, gradients = jax.value_and_grad(_loss)(ws, x, labels)
    return [w - 0.01 * g for w, g in zip(ws, gradients)], loss


def gp(x, y, t):
    import jax
    import jax.numpy as jnp

    def kernel(a, b):
        return jnp.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))

    k = kernel(x, x) + 1e-2 * jnp.eye(len(x))
    low = jnp.linalg.cholesky(k)
    between = kernel(t, x)
    v = jax.scipy.linalg.solve_triangular(low, between.T, lower=True)
    mean = between @ jax.scipy.linalg.cho_solve((low, True), y)
    values = jnp.linalg.eigh(k)[0].sum() + jnp.linalg.svd(between, compute_uv=False).sum()
    return mean, 1.0 - (v * v).sum(0), values
"""
_ARGS = {
    "gp": "[x: 'f32[64,3]', y: 'f32[64]', t: 'f32[16,3]']",
    "resnet": "[ws: {like: 'programs.model:weights'}, x: 'f32[4,32,32,3]', labels: 'i32[4]']",
}
_MANIFEST = "version: 1\npackage: programs\nfunctions:\n" + "".join(
    f"  {name}{suffix}: {{call: 'programs.model:{name}', args: {args}, startup: {startup}, "
    "verify: {golden: never}}\n"
    for name, args in _ARGS.items()
    for suffix, startup in (("", "steady"), ("_fast", "fast"))
)
# How a program is called: by jit, or as one of the package's functions.
_WAYS = ("jit", "jax", "jax fast", "numpy", "numpy fast")

Row = dict[str, float]


def main() -> int:
    """Print a line for each program and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", nargs="+", choices=tuple(_ARGS), default=list(_ARGS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_child(*options.child)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        build_package(Path(folder), "programs", _SOURCE, _MANIFEST)
        for name in options.programs:
            for row in measure(folder, name, options.rounds):
                print(json.dumps(row) if options.json else _describe(row))
    return 0


def measure(folder: str, name: str, rounds: int) -> list[dict[str, Any]]:
    """Return a row of medians for each way to call a program."""
    samples: dict[str, list[Row]] = {way: [] for way in _WAYS}
    for way in _WAYS:
        _ask(folder, name, way)  # fills jit's cache, and the kernel's
    for _ in range(rounds):
        for way in _WAYS:
            samples[way].append(_ask(folder, name, way))
    rows: list[dict[str, Any]] = []
    for way, found in samples.items():
        row = {key: round(median(sample[key] for sample in found), 1) for key in found[0]}
        pairs = list(zip(found, samples["jit"], strict=True))
        ratios = {
            f"{key} ratio": round(median(one[key] / other[key] for one, other in pairs), 2)
            for key in ("first", "made")
        }
        rows.append({"program": name, "way": way, **row, **ratios})
    return rows


def _ask(folder: str, name: str, way: str) -> Row:
    command = [sys.executable, __file__, "--child", folder, name, way]
    environment = {**os.environ, "PYTHONPATH": folder, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _child(folder: str, name: str, way: str) -> Row:
    from programs import model  # type: ignore[import-not-found]

    arguments = model.points() if name == "gp" else (model.weights(), *model.images())
    spent = {"lapack": 0.0, "load": 0.0}
    call = _jitted(folder, model, name) if way == "jit" else _kernel(folder, name, way, spent)
    figures = []
    for _ in range(2):
        start = perf_counter(), process_time()
        call(*arguments)
        figures.append((perf_counter() - start[0], process_time() - start[1]))
    (wall, cpu), (_, again) = figures
    row = {"first": wall, "first cpu": cpu, "second cpu": again, "made": cpu - again, **spent}
    return {key: 1e3 * value for key, value in row.items()}


def _jitted(folder: str, model: Any, name: str) -> Any:
    import jax

    jax.config.update("jax_compilation_cache_dir", f"{folder}/cache")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.devices()
    jitted = jax.jit(getattr(model, name))
    return lambda *arguments: jax.block_until_ready(jitted(*arguments))


def _kernel(folder: str, name: str, way: str, spent: Row) -> Any:
    import aotbuild
    from aotbuild.runtime import custom_calls

    arrays, _, startup = way.partition(" ")
    if arrays == "jax":
        import jax

        from aotbuild.runtime.jax import private

        jax.devices()
    else:
        from aotbuild.runtime.numpy import private  # type: ignore[no-redef]
    _time(custom_calls, "initialize", spent, "lapack")
    _time(private, "deserialize", spent, "load")
    library = aotbuild.load(f"{folder}/_aot", arrays=arrays)
    kernel = library.kernel(f"{name}_{startup}" if startup else name)
    if arrays == "jax":
        return lambda *arguments: jax.block_until_ready(kernel(*arguments))
    return kernel


def _time(module: Any, name: str, spent: Row, key: str) -> None:
    """Add the CPU time of a module's function to `spent`."""
    function = getattr(module, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        start = process_time()
        try:
            return function(*arguments, **options)
        finally:
            spent[key] += process_time() - start

    setattr(module, name, timed)


def _describe(row: dict[str, Any]) -> str:
    return (
        f"{row['program']:7}{row['way']:11} first {row['first']:7.0f} ms"
        f" ({row['first ratio']:.2f} of jit's), CPU: first {row['first cpu']:5.0f},"
        f" second {row['second cpu']:5.0f}, made {row['made']:5.0f} ({row['made ratio']:.2f}),"
        f" of which lapack {row['lapack']:4.0f}, load {row['load']:4.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
