"""Several devices: sharded executables, device orders, commitment, and arguments in wrong places.

Each test runs in a process with four CPU devices; the executables are built in one, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.forks import DEVICES, forked

pytestmark = pytest.mark.process

BUILD = """
import dataclasses, json, sys
from pathlib import Path
import jax
import numpy as np
from support.packages import build, write
x, w = np.arange(32, dtype="float32").reshape(8, 4), np.ones((4, 2), "float32")
def apply(w, x):
    return {"y": x @ w, "x": x * 2}
mesh = {"data": 2, "model": 2}
built = [
    build("one", apply, {"w": w, "x": x}),
    build("four", apply, {"w": w, "x": x}, mesh=mesh, out_spec=("data",),
          in_specs={"x": ("data",), "w": (None, "model")}),
    build("shift", lambda x, c: x + c, {"x": x}, mesh={"data": 2}, in_specs={"x": ("data",)},
          out_spec=("data",), constants={"c": x}),
    build("donor", lambda x: x + 1, {"x": x}, mesh={"data": 4}, in_specs={"x": ("data",)},
          out_spec=("data",), donate=["x"]),
    build("keys", jax.random.key_data, {"k": jax.random.split(jax.random.key(0), 4)},
          mesh={"data": 2}, in_specs={"k": ("data",)}, out_spec=("data",)),
]
liar = build("liar", lambda x: x + 1, {"x": x}, mesh={"data": 2}, in_specs={"x": ("data",)},
             out_spec=("data",))
for name, field in (("wrong_in", "in_specs"), ("wrong_out", "out_specs")):
    calling = dataclasses.replace(liar.record.calling, **{field: ((),)})
    built.append(dataclasses.replace(
        liar, function=dataclasses.replace(liar.function, name=name),
        record=dataclasses.replace(liar.record, function=name, calling=calling)))
write(Path(sys.argv[1]), built)
print("null")
"""
USE = """
import json, sys
import jax, numpy as np
import aotbuild
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
events = []
def listen(name, *args, **kwargs):
    if name.startswith("/jax/"):
        events.append(name)
jax.monitoring.register_event_duration_secs_listener(listen)
x, w = np.arange(32, dtype="float32").reshape(8, 4), np.ones((4, 2), "float32")
devices = jax.devices()
library = aotbuild.load(sys.argv[1])
def sharding(devices, *spec, shape=(2, 2), names=("data", "model")):
    return NamedSharding(Mesh(np.array(devices).reshape(shape), names), P(*spec))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    root: Path = tmp_path_factory.mktemp("mesh")
    forked(BUILD, str(root), devices=4)
    return str(root / "_aot")


def run(folder: str, code: str) -> Any:
    return forked(DEVICES + USE + code, folder, devices=4)


def test_any_device_of_the_kind(folder: str) -> None:
    code = """
found = []
for _ in range(2):
    for device in devices:
        out = library.one(w, jax.device_put(x, device))["y"]
        np.testing.assert_array_equal(out, x @ w)
        found.append([ids(out), out.committed])
with jax.default_device(devices[2]):
    out = library.one(w, x)["y"]
    found.append([ids(out), out.committed])
show([found, library.stats()["loaded"], events])
"""
    found, loaded, events = run(folder, code)
    assert found == [[[i], True] for i in range(4)] * 2 + [[[2], False]]
    assert loaded == 4
    assert [name for name in events if name.startswith("/jax/core/compile")] == []


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [1, 3, 0, 2]])
def test_a_mesh_in_any_order(folder: str, order: list[int]) -> None:
    code = f"""
mine = [devices[i] for i in {order}]
on = lambda a, *spec: jax.device_put(a, sharding(mine, *spec))
found = []
for _ in range(2):
    out = library.four(on(w, None, "model"), on(x, "data"))
    np.testing.assert_array_equal(out["y"], x @ w)
    np.testing.assert_array_equal(out["x"], x * 2)
    found.append([ids(out["y"]), out["y"].sharding.is_equivalent_to(sharding(mine, "data"), 2)])
show([found, events])
"""
    found, events = run(folder, code)
    assert found == [[order, True]] * 2
    assert [name for name in events if name.startswith("/jax/core/compile")] == []


def test_uncommitted_arguments_are_spread(folder: str) -> None:
    code = """
found = []
for value in (x, jax.numpy.asarray(x)):
    for _ in range(2):
        out = library.four(w, value)["y"]
        np.testing.assert_array_equal(out, x @ w)
        found.append([ids(out), out.committed])
show(found)
"""
    assert run(folder, code) == [[[0, 1, 2, 3], True]] * 4


def test_an_uncommitted_jax_array_is_spread_without_compiling(folder: str) -> None:
    code = """
found = []
for kernel, value in ((lambda v: library.four(w, v)["x"], x), (library.donor, x)):
    for _ in range(2):
        array = jax.device_put(value)
        events.clear()
        out = kernel(array)
        found.append([len(events), bool((np.asarray(array) == value).all())])
        np.testing.assert_array_equal(out, x * 2 if kernel is not library.donor else x + 1)
show(found)
"""
    assert run(folder, code) == [[0, True]] * 4


def test_typed_keys_are_spread_without_compiling(folder: str) -> None:
    code = """
found = []
for seed in range(2):
    keys = jax.random.split(jax.random.key(seed), 4)
    data = np.asarray(jax.random.key_data(keys))
    events.clear()
    out = library.keys(keys)
    found.append([len(events), bool((np.asarray(out) == data).all())])
show(found)
"""
    assert run(folder, code) == [[0, True]] * 2


def test_constants_lie_as_the_executable_wants_them(folder: str) -> None:
    code = """
for _ in range(2):
    np.testing.assert_array_equal(library.shift(x), x + x)
placed = library._package.loader._constants.get("constants", dict)._placed
(constant,) = placed.values()
show([str(constant.sharding.spec), [s.data.shape for s in constant.addressable_shards]])
"""
    assert run(folder, code)[1] == [[4, 4], [4, 4]]


@pytest.mark.parametrize("name", ["wrong_in", "wrong_out"])
def test_a_record_that_lies_about_shardings_is_refused(folder: str, name: str) -> None:
    code = f"""
try:
    library.{name}(x)
except aotbuild.errors.AotbuildError as err:
    show(str(err))
"""
    text = run(folder, code)
    assert "the executable is not sharded as its record says" in text


def test_preload_takes_the_default_devices(folder: str) -> None:
    code = """
count = library.preload("one", "four", "shift", "donor", "keys")
library.one(w, x), library.four(w, x), library.shift(x), library.donor(x)
library.keys(jax.random.split(jax.random.key(0), 4))
show([count, library.stats()["loaded"]])
"""
    assert run(folder, code) == [5, 5]


def test_donation_of_a_sharded_array(folder: str) -> None:
    code = """
where = sharding(devices, "data", shape=(4,), names=("data",))
found = []
for _ in range(2):
    given = jax.device_put(x, where)
    np.testing.assert_array_equal(library.donor(given), x + 1)
    found.append(given.is_deleted())
show(found)
"""
    assert run(folder, code) == [True, True]


@pytest.mark.parametrize(
    ("call", "path", "words"),
    [
        ("library.four, w, jax.device_put(x, sharding(devices))", "x", "jax.device_put(x, shard"),
        ("library.four, w, jax.device_put(x, devices[1])", "x", "an array on 4 devices"),
        (
            "library.one, jax.device_put(w, devices[0]), jax.device_put(x, devices[1])",
            "x",
            "the devices of w",
        ),
        (
            """library.four, jax.device_put(w, sharding(devices, None, 'model')),
            jax.device_put(x, sharding(devices[::-1], 'data'))""",
            "x",
            "the devices of w",
        ),
        (
            """library.one, w,
            jax.device_put(x, SingleDeviceSharding(devices[0], memory_kind='pinned_host'))""",
            "x",
            "pinned_host",
        ),
    ],
)
def test_wrong_places_are_refused(folder: str, call: str, path: str, words: str) -> None:
    message = run(folder, f"show(refusal({call}))")
    assert f"argument {path}\n" in message
    assert words in message


def test_a_warm_kernel_refuses_too(folder: str) -> None:
    code = """
for _ in range(3):
    library.four(w, jax.device_put(x, sharding(devices, "data")))
show(refusal(library.four, w, jax.device_put(x, sharding(devices, None, "data"))))
"""
    assert "expected NamedSharding" in run(folder, code)


def test_jit_takes_what_is_placed_elsewhere(folder: str, tmp_path: Path) -> None:
    code = """
import os
os.environ["AOTBUILD_FALLBACK"] = "jit"
library._sources["one"] = lambda w, x: {"y": x @ w, "x": x * 2}
kernel = library.one
given = jax.device_put(x, sharding(devices, "data"))
np.testing.assert_array_equal(kernel(w, given)["y"], x @ w)
show(library.stats()["fallbacks"])
"""
    assert run(folder, code) == {"portable": 0, "jit": 1}
