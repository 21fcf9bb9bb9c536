"""`lib.on(…)`: calls on the devices that it names, and a replica on each, with CPU devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.forks import DEVICES, forked

pytestmark = pytest.mark.process

BUILD = """
import sys
from pathlib import Path
import numpy as np
from support.packages import build, portable, write
x, c = np.arange(16, dtype="float32").reshape(4, 4), np.ones((4, 4), "float32")
double = build("double", lambda x: x * 2 + 1, {"x": x})
mesh = {"data": 2}
built = [
    double,
    build("plus", lambda x, c: x + c, {"x": x}, constants={"c": c}),
    build("pair", lambda x: x * 2, {"x": x}, mesh=mesh, in_specs={"x": ("data",)},
          out_spec=("data",)),
    portable(build("slow", lambda x: x - 1, {"x": x}), lambda x: x - 1),
]
write(Path(sys.argv[1]), built)
print("null")
"""
USE = """
import json, os, sys, threading
import jax, numpy as np
import aotbuild
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
events = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *a, **k: events.append(name))
x = np.arange(16, dtype="float32").reshape(4, 4)
devices = jax.devices()
library = aotbuild.load(sys.argv[1])
def compiled():
    return sum(name.startswith("/jax/core/compile") for name in events)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    root: Path = tmp_path_factory.mktemp("devices")
    forked(BUILD, str(root), devices=2)
    return str(root / "_aot")


def run(folder: str, code: str) -> Any:
    return forked(DEVICES + USE + code, folder, devices=8)


def test_a_view_runs_where_it_says(folder: str) -> None:
    code = """
array = jax.numpy.asarray(x)  # not committed, on device 0
events.clear()
found = []
for device in devices:
    view = library.on(device)
    for value in (x, array, x, array, jax.device_put(x, device)):
        out = view.double(value)
        np.testing.assert_array_equal(out, x * 2 + 1)
        found.append([ids(out) == [device.id], out.committed])
out = library.double(x)
show([found, library.stats()["loaded"], compiled(), ids(out), out.committed])
"""
    found, loaded, compiled, without, committed = run(folder, code)
    assert found == [[True, True]] * 40
    # Device 0 serves the view and the library itself.
    assert (loaded, compiled, without, committed) == (8, 0, [0], False)


def test_a_replica_on_each_device_is_loaded_once(folder: str) -> None:
    code = """
found, start = [], threading.Barrier(32)
def work(number):
    device = devices[number % 8]
    start.wait()
    for _ in range(20):
        outs = library.on(device).double(x), library.on(device).plus(x)
        np.testing.assert_array_equal(outs[1], x + 1)
        found.append([ids(out) == [device.id] for out in outs] == [True, True])
threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
[t.start() for t in threads], [t.join() for t in threads]
show([len(found), all(found), library.stats()["loaded"], compiled()])
"""
    assert run(folder, code) == [640, True, 16, 0]


def test_warm_calls_do_not_enter_python(folder: str) -> None:
    code = """
array = jax.numpy.asarray(x)
views = [library.on(device) for device in devices[:3]]
for _ in range(2):
    [view.double(value) for view in views for value in (x, array)]
misses = library.stats()["misses"]
for _ in range(50):
    for view, device in zip(views, devices):
        for value in (x, array):
            assert ids(view.double(value)) == [device.id]
show([misses, library.stats()["misses"]])
"""
    assert run(folder, code) == [6, 6]


def test_what_is_committed_elsewhere_is_refused(folder: str) -> None:
    code = """
view = library.on(devices[3])
there = jax.device_put(x, devices[2])
view.double(x)
first = refusal(view.double, there)
show([first, refusal(view.double, there) == first, str(view.explain("double", there)) == first])
"""
    message, again, explained = run(folder, code)
    assert message == (
        "double: argument x\n"
        "  expected an array on cpu:3, as on(…) says, or one not committed\n"
        "  found    an array on cpu:2\n"
        "Put it there with jax.device_put, or call the library without on(…)."
    )
    assert (again, explained) == (True, True)


def test_several_devices(folder: str) -> None:
    code = """
four = library.on(devices[4:8])
mesh = Mesh(np.array([devices[7], devices[2]]), ("any",))
sharding = NamedSharding(mesh, P("any"))
show([
    ids(four.pair(x)), ids(four.double(x)), ids(four.double(jax.device_put(x, devices[6]))),
    ids(library.on(mesh).pair(x)), ids(library.on(sharding).pair(x)),
    ids(library.on(SingleDeviceSharding(devices[1])).double(x)),
    ids(library.on(mesh).pair(jax.device_put(x, sharding))),
    refusal(library.on(devices[1]).pair, x).splitlines()[1].partition("REFUSED: ")[2],
    refusal(four.pair, jax.device_put(x, sharding)).splitlines()[1:3],
    compiled(),
])
"""
    *found, refused, elsewhere, compiled = run(folder, code)
    assert found == [[4, 5], [4], [6], [7, 2], [7, 2], [1], [7, 2]]
    assert refused == "devices: expected 2, found 1, which on(…) names"
    assert elsewhere[1] == "  found    an array on cpu:7, cpu:2"
    assert compiled == 0


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("'cpu:0'", "expected a device, several, a Mesh or a Sharding\n  found    'cpu:0'\n"),
        ("3", "found    3\n"),
        ("None", "found    None\n"),
        ("[devices[0], 'x']", "expected a device, several"),
        ("[]", "expected a device of this process (0)\n  found    no device\n"),
        ("[devices[0], devices[0]]", "expected each device once\n  found    cpu:0, cpu:0\n"),
    ],
)
def test_what_is_no_device(folder: str, where: str, words: str) -> None:
    message = run(folder, f"show(refusal(library.on, {where}))")
    assert message.startswith("on(…)\n  expected ")
    assert words in message


def test_fallbacks_run_on_the_view(folder: str) -> None:
    code = """
os.environ["AOTBUILD_FALLBACK"] = "portable"
found = ids(library.on(devices[3]).slow(x)) + ids(library.slow(x))
os.environ["AOTBUILD_FALLBACK"] = "jit"
library._sources["slow"] = lambda x: x - 1
kernel = library.on(devices[4]).slow
show([*found, *ids(kernel(x)), library.stats()["fallbacks"]])
"""
    assert run(folder, code) == [3, 0, 4, {"portable": 2, "jit": 1}]
