"""Host callbacks that a name leads to: built, and called in another process as jit calls them."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from support.cli import run
from support.forks import forked
from support.processes import fresh
from support.projects import build, make_importable, write_project

import aotbuild
from aotbuild.errors import BuildError, NoExecutable
from aotbuild.format.record import PYTHON_CALL
from aotbuild.runtime.checked_blobs import DirectorySource, open_index

pytestmark = pytest.mark.process

HOST = """\
import numpy as np

calls = []


def twice(x, *, by):
    calls.append(f"twice {type(x).__module__.partition('.')[0]}")
    return {"y": np.asarray(x) * np.asarray(by), "z": np.float64(3)}


def add(x):
    calls.append("add")
    return np.asarray(x) + 1


def log(x, name, step=0):
    calls.append(f"log {name} {int(step)} {np.asarray(x).tolist()}")


def fails(x):
    raise ValueError("the host has no answer")


def wrong(x):
    return np.zeros(7, np.float32)
"""
CODE = """\
import functools

import jax
import jax.numpy as jnp
from jax.experimental import io_callback

from proj import host

SHAPE = jax.ShapeDtypeStruct


def pure(x):
    shapes = {"y": SHAPE(x.shape, x.dtype), "z": SHAPE((), jnp.float32)}
    out = jax.pure_callback(host.twice, shapes, x, by=2.0)
    return jnp.sin(out["y"]) + out["z"]


def every(x):
    jax.debug.callback(host.log, x, "plain", step=3)
    jax.debug.callback(host.log, x, "first", ordered=True)
    jax.debug.callback(host.log, x + 1, "second", ordered=True)
    y = io_callback(host.add, SHAPE(x.shape, x.dtype), x, ordered=True)
    z = io_callback(host.add, SHAPE(x.shape, x.dtype), y)
    jax.debug.print("x is {} and {z:.1f}", x[0], z=z[1])
    return y + z


def loop(x):
    def step(carry, number):
        carry = jax.pure_callback(host.add, SHAPE(carry.shape, carry.dtype), carry)
        jax.debug.callback(host.log, carry, "step", step=number, ordered=True)
        return carry, None

    return jax.lax.fori_loop(0, 3, lambda i, x: step(x, i)[0], x)


def fails(x):
    return jax.pure_callback(host.fails, SHAPE(x.shape, x.dtype), x)


def wrong(x):
    return jax.pure_callback(host.wrong, SHAPE(x.shape, x.dtype), x)
"""
MANIFEST = """\
version: 1
package: proj
targets: [cpu]
functions:
""" + "".join(
    f"  {name}: {{call: 'proj.code:{name}', args: [{{x: 'f32[2]'}}]}}\n"
    for name in ("pure", "every", "loop", "fails", "wrong")
)
# Prints what each function returns, what it calls and how often, and jax's events of compiling.
CALL = """\
import contextlib, io, json, sys

import jax
import numpy as np

import aotbuild

sys.path.insert(0, sys.argv[1])
library = aotbuild.load(sys.argv[2])
from proj import host

x, found, events = np.array([1, 2], np.float32), {}, []
jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: events.append(name))
with contextlib.redirect_stdout(io.StringIO()) as printed:
    for name in sys.argv[3:]:
        result = getattr(library, name)(x)
        jax.effects_barrier()
        found[name] = [np.asarray(result).tolist(), host.calls[:]]
        host.calls.clear()
compiled = [name for name in events if "compile" in name]
stats, text = library.stats(), printed.getvalue()
print(json.dumps({"found": found, "compiled": compiled, "stats": stats, "printed": text}))
"""
X = np.array([1, 2], np.float32)


@pytest.fixture(scope="module", name="project")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("callbacks") / "here"
    return write_project(root, MANIFEST, code=CODE, host=HOST)


@pytest.fixture(scope="module", name="folder")
def _folder(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(project, tmp_path_factory.mktemp("out") / "_aot").folder


@pytest.fixture(name="here")
def _here(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_importable(project, monkeypatch)


def test_a_fresh_process_calls_what_jit_calls(project: Path, folder: Path) -> None:
    document = fresh(CALL, str(project), str(folder), "pure", "every", "loop")
    assert document["printed"] == "x is 1.0 and 4.0\n"
    found = document["found"]
    assert found["pure"][0] == pytest.approx((np.sin(X * 2) + 3).tolist())
    assert found["pure"][1] == ["twice jaxlib"]
    assert found["every"][0] == [5, 7]
    calls = found["every"][1]
    assert sorted(calls) == [
        *("add", "add", "log first 0 [1.0, 2.0]", "log plain 3 [1.0, 2.0]"),
        "log second 0 [2.0, 3.0]",
    ]
    assert calls.index("log first 0 [1.0, 2.0]") < calls.index("log second 0 [2.0, 3.0]")
    steps = [f"log step {n} [{2.0 + n}, {3.0 + n}]" for n in range(3)]
    assert found["loop"] == [[4, 5], [word for step in steps for word in ("add", step)]]
    assert document["compiled"] == []
    assert document["stats"]["host_callbacks"] == 1 + 6 + 6


@pytest.mark.usefixtures("here")
def test_an_exception_reaches_the_caller(folder: Path) -> None:
    library = aotbuild.load(folder)
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: the host has no answer"):
        library.fails(X).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"proj.host:wrong: result 0: expected"):
        library.wrong(X).block_until_ready()


def test_numpy_is_refused(folder: Path) -> None:
    with pytest.raises(NoExecutable, match="what it calls back in Python needs load"):
        aotbuild.load(folder, arrays="numpy").pure(X)


def test_the_record_and_inspect_name_the_functions(folder: Path) -> None:
    (record,) = open_index(DirectorySource(folder)).records("every")
    assert PYTHON_CALL in record.requires.custom_calls
    assert {callback.call for callback in record.calling.callbacks} == {
        *("proj.host:log", "proj.host:add", "")
    }
    assert sorted(record.calling.tokens) == ["debug", "io"]
    assert "golden" in record.provenance
    document = json.loads(run("inspect", folder, "--json", "--function", "every").stdout)
    (executable,) = document["functions"][0]["signatures"][0]["executables"]
    assert sorted(executable["calls_back"]) == ["jax.debug.print", "proj.host:add", "proj.host:log"]
    assert "calls proj.host:twice" in run("inspect", folder).stdout
    assert "it calls back into Python (proj.host:twice)" in run("verify", folder).stdout


def test_what_no_name_leads_to_is_refused(tmp_path: Path) -> None:
    bad = """

class Box:
    def method(self, x):
        return x


BOX = Box()


def of_a_partial(x):
    return jax.pure_callback(functools.partial(host.add), SHAPE(x.shape, x.dtype), x)


def of_a_method(x):
    return jax.pure_callback(BOX.method, SHAPE(x.shape, x.dtype), x)

"""
    manifest = (
        MANIFEST[: MANIFEST.index("  pure")]
        + """\
  of_a_partial: {call: "proj.code:of_a_partial", args: [{x: "f32[2]"}]}
  of_a_method: {call: "proj.code:of_a_method", args: [{x: "f32[2]"}]}
"""
    )
    manifest = manifest.replace("[cpu]", "[cpu, {portable: {platforms: [cpu]}}]")
    manifest += '  pure: {call: "proj.code:pure", args: [{x: "f32[2]"}]}\n'
    root = write_project(tmp_path / "here", manifest, code=CODE + bad, host=HOST)
    with pytest.raises(BuildError) as caught:
        build(root)
    reasons = {
        f.unit.partition("()")[0] + f.unit.partition(" for ")[2][:3]: f.message
        for f in caught.value.failures
    }
    assert "a partial has no module and qualified name" in reasons["of_a_partialcpu"]
    assert "lead back to the object itself" in reasons["of_a_methodcpu"]
    assert "only executables for CPUs can do" in reasons["purepor"]
    assert "purecpu" not in reasons


OVER_A_MESH = """
import json, sys
import jax, numpy as np
import aotbuild
from proj import code, host, meshes
library = aotbuild.load(sys.argv[1])
x = np.arange(8, dtype=np.float32)
for name in ("whole", "parts"):
    host.calls.clear()
    found = np.asarray(getattr(library, name)(x))
    calls = sorted(host.calls)
    host.calls.clear()
    expected = np.asarray(jax.jit(getattr(meshes, name))(jax.device_put(x, meshes.PLACE)))
    assert found.tolist() == expected.tolist() == (x + 1).tolist(), name
    assert calls and set(calls) == {"add"}, calls
print("null")
"""


def test_over_a_mesh(tmp_path: Path) -> None:
    meshes = (
        CODE
        + """
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

MESH = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
PLACE = NamedSharding(MESH, P("x"))


def whole(x):
    return jax.pure_callback(host.add, SHAPE(x.shape, x.dtype), x)


@jax.shard_map(mesh=MESH, in_specs=P("x"), out_specs=P("x"))
def parts(x):
    return jax.pure_callback(host.add, SHAPE(x.shape, x.dtype), x)
"""
    )
    manifest = """
version: 1
package: proj
functions:
  whole: {call: "proj.meshes:whole", args: [x: "f32[8]"], mesh: {x: 4}, in_shardings: {x: [x]}}
  parts: {call: "proj.meshes:parts", args: [x: "f32[8]"], mesh: {x: 4}, in_shardings: {x: [x]}}
"""
    root = write_project(tmp_path / "here", manifest, code=CODE, host=HOST, meshes=meshes)
    build(root)
    forked(OVER_A_MESH, str(root / "proj" / "_aot"), devices=4, path=root)
