"""Fresh processes: nothing is traced, lowered or compiled, and LAPACK is initialized in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.packages import build, write
from support.processes import fresh, run_fresh

from aotbuild.platforms.cpu import host as cpuinfo

pytestmark = pytest.mark.process

COUNT = """
import json, sys
import jax, numpy as np
import aotbuild
events = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *a, **k: events.append(name))
x = np.diag(np.arange(1, 4)).astype("float32")
library = aotbuild.load(sys.argv[1])
"""
COMPILING = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def solve(x: Any) -> Any:
        return jnp.linalg.eigh(x).eigenvalues, jnp.linalg.qr(x), jnp.linalg.svd(x)

    x = np.eye(3, dtype="float32")
    key = jax.random.key(0)
    scan = lambda x: jax.lax.scan(lambda c, r: (c + r, c), x[0], x)  # noqa: E731
    built = [
        build("solve", solve, {"x": x}),
        build("scan", scan, {"x": x}),
        build("noise", lambda k, x: x + jax.random.normal(k, x.shape), {"k": key, "x": x}),
        build("step", lambda c, x, k: (c + x * k[0], c), {"c": x, "x": x}, statics={"k": (2,)},
              donate=["c"], positional=["c", "x", "k"]),
        build("shift", lambda x, c: x + c, {"x": x}, constants={"c": x}),
    ]  # fmt: skip
    return write(tmp_path_factory.mktemp("fresh"), built)


def test_no_event_of_compiling(folder: Path) -> None:
    code = """
    library.solve(x), library.scan(x), library.shift(x)
    library.step(jax.device_put(x), x, (2,)), library.step(x=x, c=x, k=(2,))
    library.preload()
    json.dump(events, sys.stdout)
    """
    events = fresh(COUNT + code.replace("    ", ""), str(folder))
    assert [event for event in events if event.startswith("/jax/core/compile")] == []


def test_typed_keys_cause_no_event(folder: Path) -> None:
    code = """
key = jax.random.key(0)
events.clear()
library.noise(key, x), library.noise(key, x)
json.dump(events, sys.stdout)
"""
    events = fresh(COUNT + code, str(folder))
    assert [event for event in events if not event.startswith("/aotbuild/")] == []


def test_the_listener_can_hear(folder: Path) -> None:
    code = "jax.jit(lambda x: x * 2)(x); json.dump(events, sys.stdout)"
    events = fresh(COUNT + code, str(folder))
    assert set(COMPILING) <= set(events)


def test_lapack_is_initialized_before_the_first_call(folder: Path) -> None:
    code = "json.dump(np.asarray(library.solve(x)[0]).tolist(), sys.stdout)"
    assert fresh(COUNT + code, str(folder)) == [1.0, 2.0, 3.0]


def test_lapack_needs_little_of_scipy(folder: Path) -> None:
    code = """
library.solve(x)
before = [name for name in sys.modules if name.startswith("scipy.linalg")]
import scipy.linalg
capi = [scipy.linalg.cython_blas.__pyx_capi__, scipy.linalg.cython_lapack.__pyx_capi__]
values = scipy.linalg.eigvalsh(np.diag([3.0, 1.0, 2.0])).tolist()
json.dump([before, [bool(found) for found in capi], values], sys.stdout)
"""
    assert fresh(COUNT + code, str(folder)) == [[], [True, True], [1.0, 2.0, 3.0]]


def test_opening_and_listing_imports_neither_jax_nor_numpy(folder: Path) -> None:
    code = """
import json, sys
import aotbuild
names = aotbuild.load(sys.argv[1]).functions
json.dump([names, sorted({"jax", "jaxlib", "numpy", "safetensors"} & set(sys.modules))], sys.stdout)
"""
    names, loaded = fresh(code, str(folder))
    assert names == ["noise", "scan", "shift", "solve", "step"]
    assert loaded == []


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
@pytest.mark.parametrize(("jaxlib", "lacks"), [("0.12.0.1", "fma"), ("0.10.2", "")])
def test_a_cpu_below_what_jaxlib_needs(folder: Path, arrays: str, jaxlib: str, lacks: str) -> None:
    """The message comes before jaxlib is imported, which raises, or runs what the CPU lacks."""
    if (
        not {"avx", "avx2", "bmi2", "f16c", "fma"} <= cpuinfo.features()
        or cpuinfo.read_cpuid() is None
    ):
        pytest.skip("masks features of the CPU")
    code = f"""
import sys, numpy, aotbuild
import jaxlib.version
jaxlib.version.__version__ = {jaxlib!r}
library = aotbuild.load(sys.argv[1], arrays={arrays!r})
library.solve(numpy.eye(3, dtype="float32"))
"""
    hidden = "glibc.cpu.hwcaps=-FMA"
    done = run_fresh(code, str(folder), check=False, GLIBC_TUNABLES=hidden)
    reason = f"jaxlib {jaxlib} needs {lacks}, which this CPU lacks\nUse a CPU that has them, or a"
    assert (reason in done.stderr) == bool(lacks), done.stderr
