"""The custom calls of a GPU's executables: who provides each, and how a machine gets them.

The plugin is the real one. It registers handlers without a GPU, and runs nothing.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from support.processes import ROOT, clean_environment
from support.toolchains import build_with, cross_environment

from aotbuild.build.pack import Package
from aotbuild.toolchains.toolchain import Environment

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

MODEL = """\
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl, sparse
from jax.experimental.pallas import mosaic_gpu, triton
from jax.lax import linalg

def eigh(x): return jnp.linalg.eigh(x)
def cholesky(x): return jnp.linalg.cholesky(x)
def svd(x): return jnp.linalg.svd(x)
def qr(x): return jnp.linalg.qr(x)
def pivoted_qr(x): return jax.scipy.linalg.qr(x, pivoting=True)
def solve(x): return jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(x), x)
def triangular(x): return linalg.triangular_solve(x, x, left_side=True, lower=True)
def tridiagonal(x): return linalg.tridiagonal_solve(x[0], x[1], x[2], x)
def fft(x): return jnp.fft.fft2(x)
def threefry(x): return x + jax.random.normal(jax.random.key(1), x.shape)
def bcsr(data, indices, indptr, x):
    return sparse.BCSR((data, indices, indptr), shape=(64, 64)) @ x
def _tanh(x, out): out[...] = jnp.tanh(x[...]) + 1
OUT = jax.ShapeDtypeStruct((64, 64), jnp.float32)
def by_triton(x): return pl.pallas_call(_tanh, OUT, compiler_params=triton.CompilerParams())(x)
def by_mosaic(x): return mosaic_gpu.kernel(_tanh, out_type=OUT)(x)
"""
SQUARE = "args: [x: 'f32[64,64]']"
SPARSE = "args: [data: 'f32[90]', indices: 'i32[90]', indptr: 'i32[65]', x: 'f32[64,8]']"

# By function: its arguments and settings, and its calls by their providers.
FUNCTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "eigh": (SQUARE, {"cusolver_syevd_ffi": "jax"}),
    "cholesky": (SQUARE, {"cusolver_potrf_ffi": "jax"}),
    "svd": (SQUARE, {"cusolver_gesvdj_ffi": "jax"}),
    "qr": (SQUARE, {"cusolver_geqrf_ffi": "jax", "cusolver_orgqr_ffi": "jax"}),
    "pivoted_qr": (SQUARE, {"cuhybrid_geqp3": "jax", "cusolver_orgqr_ffi": "jax"}),
    "solve": (
        SQUARE,
        {
            "__cublas$triangularSolve": "xla",
            "cu_lu_pivots_to_permutation": "jax",
            "cusolver_getrf_ffi": "jax",
        },
    ),
    "triangular": (SQUARE, {"__cublas$triangularSolve": "xla"}),
    "tridiagonal": (SQUARE, {"cusparse_gtsv2_ffi": "jax"}),
    "fft": (SQUARE, {}),
    "threefry": (
        f"{SQUARE}, config: {{jax_threefry_gpu_kernel_lowering: true}}",
        {"cu_threefry2x32_ffi": "jax"},
    ),
    "bcsr": (SPARSE, {}),
    "by_triton": (SQUARE, {"__gpu$xla.gpu.triton": "xla"}),
    "by_mosaic": (SQUARE, {"mosaic_gpu_v2": "jax"}),
}

# As a process on a machine with jax[cuda13] up to its driver, which the device stands in for.
CHECK = """
import json, os, sys
from types import SimpleNamespace
import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.platforms.base import client_part
from aotbuild.runtime import custom_calls
from aotbuild.runtime.devices import DeviceSet
from aotbuild.runtime.compatibility import judge

arrays, folder = sys.argv[1:]
if arrays == "jax":
    import jax_plugins.xla_cuda13
    jax_plugins.xla_cuda13.initialize()
    from aotbuild.runtime.jax.backend import probe
    from aotbuild.runtime.jax.private import register_custom_call
    missing = ""
else:
    from aotbuild.runtime.numpy import private
    from aotbuild.runtime.numpy.backend import probe
    from aotbuild.runtime.numpy.private import register_custom_call
    try:
        client_part("cuda").make(private)
    except AotbuildError as err:
        missing = str(err)
device = SimpleNamespace(device_kind="NVIDIA H100 80GB HBM3", compute_capability="9.0")
host = probe(DeviceSet("cuda", device, (device,), (device,)))
found, registered = {}, {}
def register(target, handler, platform):
    register_custom_call(target, handler, platform)
    registered[target] = platform
library = aotbuild.load(folder, arrays=arrays)
for name in library.functions:
    (record,) = getattr(library, name).records
    found[name] = judge(record, host).reasons
    custom_calls.register(record, SimpleNamespace(register=register))
runtime = os.path.exists(os.environ["MOSAIC_GPU_RUNTIME_LIB_PATH"])
print(json.dumps([found, registered, missing, runtime, "jax" in sys.modules]))
"""


@pytest.fixture(scope="module")
def environment() -> Environment:
    return cross_environment("cuda")


@pytest.fixture(scope="module")
def package(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Package:
    listing = [f"{n}: {{call: 'proj.model:{n}', {args}}}" for n, (args, _) in FUNCTIONS.items()]
    folder, targets = tmp_path_factory.mktemp("calls"), "[cuda: {gpu: h100-sxm}]"
    return build_with(environment, folder, targets, *listing, model=MODEL)


def test_providers(package: Package) -> None:
    found = {
        record.function: {call.target: call.provider for call in record.requires.custom_calls}
        for record in package.records
    }
    assert found == {name: calls for name, (_, calls) in FUNCTIONS.items()}


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_a_machine_with_the_plugin_has_them(
    package: Package, environment: Environment, arrays: str
) -> None:
    """The real plugin takes every handler, from both backends; numpy's imports no jax."""
    interpreter = environment.toolchains[0].interpreter
    variables = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(interpreter), "-c", CHECK, arrays, str(package.folder)],
        capture_output=True,
        text=True,
        env=clean_environment(**variables),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    reasons, registered, missing, has_runtime, has_jax = json.loads(done.stdout.splitlines()[-1])
    assert reasons.keys() == FUNCTIONS.keys()
    # What this machine lacks is a driver, and nothing else.
    lacking = {reason for found in reasons.values() for reason in found}
    assert {reason.partition(":")[0] for reason in lacking} <= {"cuda driver", "cudnn"}
    calls = {name: by for _, calls in FUNCTIONS.values() for name, by in calls.items()}
    # The plugin itself registers Mosaic's.
    expected = {name for name, by in calls.items() if by == "jax"} - {"mosaic_gpu_v2"}
    assert registered == dict.fromkeys(expected, "CUDA")
    assert has_runtime
    assert has_jax == (arrays == "jax")
    assert ("NVIDIA's driver is not here" in missing) == (arrays == "numpy")
