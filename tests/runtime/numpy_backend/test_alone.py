"""Processes with the numpy backend only: jax is not imported, and works if it is later."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from support.packages import build, write
from support.processes import fresh

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.record import Blob

pytestmark = pytest.mark.process

BEGIN = """
import json, os, sys, threading
os.environ.pop("TF_CPP_MIN_LOG_LEVEL", None)  # the process of these tests has it from jax
asked = []
class Spy:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "jax":
            asked.append(name)
            if HIDE:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
HIDE = False
sys.meta_path.insert(0, Spy())
import aotbuild
library = aotbuild.load(sys.argv[1], arrays="numpy")
import ml_dtypes, numpy as np
from aotbuild.errors import AotbuildError, NoExecutable, SignatureMismatch
x = np.diag(np.arange(1, 4)).astype("float32")
def use():
    assert library.double(x).tolist() == (2 * x).tolist()
    assert library.half(x.astype("bfloat16")).tolist() == (x / 2).tolist()
    assert library.step(x, x).tolist() == (x + 1).tolist()
    assert library.shift(x).tolist() == (x + x).tolist()
    assert np.allclose(library.values(x), [1, 2, 3])
    try:
        library.double(x[:2])
    except SignatureMismatch:
        library.explain("double", x[:2])
    return library.stats()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.eye(3, dtype="float32")
    built = [
        build("double", lambda x: x * 2, {"x": x}),
        build("half", lambda x: x / 2, {"x": x.astype(ml_dtypes.bfloat16)}),
        build("step", lambda c, x: c * 0 + x + 1, {"c": x, "x": x}, donate=["c"]),
        build("shift", lambda x, c: x + c @ x, {"x": x}, constants={"c": x}),
        build("values", lambda x: jnp.linalg.eigh(x).eigenvalues, {"x": x}),
    ]
    # Its bytes are for one device: XLA would end a process that gives them two.
    over_two = build("both", lambda x: x * 2, {"x": x}).replace(devices=2)
    return write(tmp_path_factory.mktemp("alone"), [*built, over_two])


def test_jax_is_not_even_looked_for(folder: Path) -> None:
    code = """
for _ in range(2):
    use()
library.preload(), library.on("cpu").double(x), repr(library)
threads = [threading.Thread(target=use) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
print(json.dumps([asked, "jax" in sys.modules, "TF_CPP_MIN_LOG_LEVEL" in os.environ]))
"""
    assert fresh(BEGIN + code, str(folder)) == [[], False, False]


def test_a_result_that_numpy_cannot_read(tmp_path: Path) -> None:
    """Only jax can: its columns are one after the other in memory. No array of objects is given."""
    built = build("double", lambda x: x * 2, {"x": np.eye(3, dtype="float32")})
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    columns = jax.jit(lambda x: x * 2, out_shardings=Format(Layout((1, 0)), place))
    loaded = columns.lower(np.eye(3, dtype="float32")).compile().runtime_executable()
    data = loaded.client.serialize_executable(loaded)
    blob = Blob("pjrt", sha256_hex(data), len(data))
    record = dataclasses.replace(built.record, blob=blob)
    folder = write(tmp_path, [dataclasses.replace(built, record=record, blobs={blob.path: data})])
    code = """
found = []
for _ in range(2):
    try:
        library.double(x)
    except AotbuildError as err:
        found.append(str(err).splitlines()[-3:])
print(json.dumps(found))
"""
    result, expected, reason = (
        "result 0",
        "  expected float32",
        "  found    an array that numpy cannot read: it has a memory layout of its own",
    )
    for end, *rest in fresh(BEGIN + code, str(folder)):
        assert end.endswith(result)
        assert rest == [expected, reason]


def test_without_jax_in_the_environment(folder: Path) -> None:
    code = """
HIDE = True
use()
HIDE = False
sys.path[:] = [place for place in sys.path if "site-packages" not in place]
try:
    aotbuild.load(sys.argv[1])
except ImportError as err:
    print(json.dumps([type(err).__name__, 'arrays="numpy"' in str(err)]))
"""
    assert fresh(BEGIN + code, str(folder)) == ["MissingJax", True]


def test_jax_may_come_later(folder: Path) -> None:
    code = """
use()
import jax, jax.numpy as jnp
y = jax.jit(lambda a: jnp.linalg.eigh(a).eigenvalues)(x)
facts = [type(y.aval).__name__, type(y.sharding).__name__, np.asarray(y).dtype.name]
facts += [str(jnp.arange(3).dtype), str(jax.jit(lambda a: a)(2.0).dtype)]
jax.config.update("jax_enable_x64", True)
facts += [str(jnp.arange(3).dtype), str(jax.jit(lambda a: a)(2.0).dtype)]
try:
    use()
except NoExecutable as err:
    facts.append("jax_enable_x64: expected False, found True" in str(err))
jax.config.update("jax_enable_x64", False)
use()
other = aotbuild.load(sys.argv[1])
facts.append(np.asarray(other.double(x)).tolist() == library.double(x).tolist())
with jax.disable_jit():
    facts.append(np.asarray(jax.jit(lambda a: a + 1)(x)).tolist() == (x + 1).tolist())
print(json.dumps(facts))
"""
    assert fresh(BEGIN + code, str(folder)) == [
        *("ShapedArray", "SingleDeviceSharding", "float32"),
        *("int32", "float32", "int64", "float64"),
        *(True, True, True),
    ]


def test_another_thread_may_import_jax_meanwhile(folder: Path) -> None:
    code = """
sys.setswitchinterval(1e-5)
failures, done = [], threading.Event()
def import_jax():
    try:
        import jax
        jax.jit(lambda a: a * 2)(1)
    except BaseException as err:
        failures.append(repr(err))
    done.set()
threading.Thread(target=import_jax).start()
calls = 0
while not done.is_set():
    # A new library makes its dispatch anew, and gives C++ its settings if jax has not.
    library = aotbuild.load(sys.argv[1], arrays="numpy")
    use()
    calls += 1
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
print(json.dumps([failures, calls > 0, str(jax.jit(lambda a: a)(2.0).dtype)]))
"""
    assert fresh(BEGIN + code, str(folder)) == [[], True, "float64"]


def test_the_variable_for_64_bits(tmp_path: Path) -> None:
    x: Any = np.arange(3.0)
    with jax.enable_x64(True):
        built = build("f", lambda x, n: x * n, {"x": x, "n": 3})
    code = """
os.environ["JAX_ENABLE_X64"] = "true"
y = library.f(np.arange(3.0), 3)
print(json.dumps([y.dtype.name, y.tolist(), "jax" in sys.modules]))
"""
    folder = write(tmp_path, [built])
    assert fresh(BEGIN + code, str(folder)) == ["float64", [0.0, 3.0, 6.0], False]
    wrong = """
os.environ["JAX_ENABLE_X64"] = "perhaps"
try:
    library.f(np.arange(3.0), 3)
except AotbuildError as err:
    print(json.dumps(str(err)))
"""
    assert "JAX_ENABLE_X64: expected 0 or 1, found 'perhaps'" in fresh(BEGIN + wrong, str(folder))


@pytest.mark.parametrize("first", ["0", "1"])
def test_the_variable_for_64_bits_counts_once(tmp_path: Path, first: str) -> None:
    """C++ keeps what it was at the first kernel: a later change must not be obeyed by half."""
    x = np.float32([1, 2, 4])
    built = [build("f", lambda x, k: x * k, {"x": x, "k": 2.0})]
    with jax.enable_x64(True):
        built += [build("wide", lambda x, k: x * k, {"x": np.float64(x), "k": 2.0})]
    code = """
x = np.array([1, 2, 4], "float32")
def answers():
    found = []
    for name, given in (("f", x), ("wide", x.astype("float64")), ("wide", x.astype("float64"))):
        try:
            found.append(getattr(library, name)(given, 2.0).dtype.name)
        except SignatureMismatch as err:
            found.append("start the process with JAX_ENABLE_X64=1" in str(err))
    return found
os.environ["JAX_ENABLE_X64"] = sys.argv[2]
facts = [answers()]
for later in ("1", "0", "perhaps"):
    os.environ["JAX_ENABLE_X64"] = later
    facts += [answers()]
    library = aotbuild.load(sys.argv[1], arrays="numpy")
    facts += [answers()]
print(json.dumps(facts))
"""
    narrow, wide = ["float32", True, True], [False, "float64", "float64"]
    expected = [wide if first == "1" else narrow] * 7
    assert fresh(BEGIN + code, str(write(tmp_path, built)), first) == expected


def test_devices_are_counted_as_jax_counts_them(folder: Path) -> None:
    code = """
result = library.on("cpu:1").double(x)
print(json.dumps(result.tolist() == (2 * x).tolist()))
"""
    assert fresh(BEGIN + code, str(folder), devices=2) is True
    mesh = """
try:
    library.both(x)
except NoExecutable as err:
    print(json.dumps(err.trace[0]))
"""
    assert "a function over 2 devices needs load" in fresh(BEGIN + mesh, str(folder), devices=2)
    own = 'os.environ.update(XLA_FLAGS="", JAX_NUM_CPU_DEVICES="2")'
    assert fresh(BEGIN + own + code, str(folder)) is True


@pytest.mark.parametrize("number", ["0", "9" * 20])
def test_a_number_of_devices_that_is_none(folder: Path, number: str) -> None:
    code = """
os.environ["JAX_NUM_CPU_DEVICES"] = sys.argv[2]
try:
    library.double(x)
except AotbuildError as err:
    print(json.dumps(str(err)))
"""
    found = fresh(BEGIN + code, str(folder), number)
    assert "JAX_NUM_CPU_DEVICES: expected a whole number" in found


@pytest.mark.parametrize("platforms", ["tpu,cpu", "tpu"])
def test_platforms(folder: Path, platforms: str) -> None:
    code = """
os.environ["JAX_PLATFORMS"] = sys.argv[2]
try:
    library.double(x)
    print(json.dumps("ran"))
except AotbuildError as err:
    print(json.dumps(str(err)))
"""
    found = fresh(BEGIN + code, str(folder), platforms)
    wanted = "ran" if "cpu" in platforms else "expected one of cpu, cuda, gpu"
    assert wanted in found
