"""Forks: what is opened before may be called after, and what XLA has begun is refused in words."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forks import forked
from support.packages import build, write
from support.processes import fresh

pytestmark = pytest.mark.process

if not hasattr(os, "fork"):
    pytest.skip("no os.fork here", allow_module_level=True)

# `before` is done by the parent, `after` by its child, whose answer is printed.
CODE = """
import json, os, sys, warnings
import numpy as np
import aotbuild
warnings.simplefilter("ignore")
lib = aotbuild.load(sys.argv[1], arrays=sys.argv[2])
x = np.ones(4, np.float32)
exec(sys.argv[3])
reading, writing = os.pipe()
if os.fork() == 0:
    try:
        answer = eval(sys.argv[4])
    except aotbuild.errors.AotbuildError as err:
        answer = str(err)
    os.write(writing, json.dumps(answer).encode())
    os._exit(0)
os.close(writing)
print(os.read(reading, 10_000).decode())
os._exit(os.wait()[1])
"""
BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])


def run(code: str, package: str, arrays: str, before: str, after: str) -> Any:
    """Run it where jax is imported already, or where nothing is: a fork says nothing either way."""
    begin = forked if arrays == "jax" else fresh
    return begin(code, package, arrays, before, after)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    x = np.ones(4, np.float32)
    functions = [("f", lambda x: x * 2), ("g", lambda x: x * 3)]
    built = [build(name, function, {"x": x}) for name, function in functions]
    return str(write(tmp_path_factory.mktemp("package"), built))


@BACKENDS
@pytest.mark.parametrize("before", ["", "lib.f", "lib.functions"])
def test_opened_before_and_called_after(package: str, arrays: str, before: str) -> None:
    after = "np.asarray(lib.f(x) + lib.g(x)).tolist()"
    assert run(CODE, package, arrays, before, after) == [5.0] * 4


@BACKENDS
@pytest.mark.parametrize("before", ["lib.f(x)", "lib.preload()", "lib.explain('f', x)"])
@pytest.mark.parametrize("after", ["lib.f(x)", "lib.g(x)", "lib.preload('f')"])
def test_called_before_and_refused_after(
    package: str, arrays: str, before: str, after: str
) -> None:
    text = run(CODE, package, arrays, before, after)
    assert "cannot run in a process that was forked after XLA's threads were started" in text
    assert text.endswith("start it with spawn or forkserver.")


@pytest.mark.parametrize("after", ["lib.f(np.ones(3, np.float32))", "lib.place(x)"])
def test_what_compiles_or_moves_is_refused_too(package: str, after: str) -> None:
    """With `fallback: jit` the source was called, and hung as jit does."""
    before = "os.environ['AOTBUILD_FALLBACK'] = 'jit'; lib.f(x)"
    text = fresh(CODE, package, "jax", before, after)
    assert "cannot run in a process that was forked after XLA's threads were started" in text


def test_placing_numpy_arrays_on_a_device_is_refused(package: str) -> None:
    before = "from ml_dtypes import int4; lib.f(x)"
    text = fresh(CODE, package, "numpy", before, "lib.place(x) is None or lib.place(int4(x))")
    assert text.startswith("place(): it cannot run in a process that was forked")


@pytest.mark.parametrize("looked_up", ["lib.f; ", ""])
@pytest.mark.parametrize("used", ["jax.devices()", "jax.numpy.ones(3).block_until_ready()"])
def test_devices_of_jax_count_too(package: str, looked_up: str, used: str) -> None:
    before = f"import jax; {looked_up}{used}"
    assert "which had devices already" in run(CODE, package, "jax", before, "lib.f(x)")


@BACKENDS
def test_the_parent_goes_on(package: str, arrays: str) -> None:
    code = CODE.replace("os._exit(os.wait()[1])", "print(np.asarray(lib.f(x)).tolist())")
    assert run(code, package, arrays, "lib.f(x)", "None") == [2.0] * 4


# Each of four children reads the same members often; the answers are the numbers of wrong reads.
READERS = """
import json, os, sys
from pathlib import Path
from aotbuild.runtime.wheel_source import WheelSource
source = WheelSource(Path(sys.argv[1]))
def count():
    wrong = 0
    for number in range(2000):
        try:
            wrong += source.read(f"blobs/{number % 8}") != bytes([number % 8]) * 5000
        except OSError:
            wrong += 1
    return wrong
reading, writing = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.write(writing, f"{count()} ".encode())
        os._exit(0)
[os.wait() for _ in range(4)]
print(json.dumps(os.read(reading, 1000).split() == [b"0"] * 4))
"""


def test_children_read_a_wheel_that_their_parent_opened(tmp_path: Path) -> None:
    """They inherit the descriptor, whose offset is one for all of them."""
    wheel = write_wheel(tmp_path)
    assert fresh(READERS, str(wheel)) is True


def write_wheel(folder: Path) -> Path:
    path = folder / "p-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p/_aot/index", b"")
        for number in range(8):
            archive.writestr(f"p/_aot/blobs/{number}", bytes([number]) * 5000)
    return path
