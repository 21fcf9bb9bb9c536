"""`aotbuild export-cache`: a program that knows nothing of aotbuild finds what a wheel has."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import jax
import pytest
from support.cli import run
from support.processes import fresh, run_fresh
from support.projects import build, write_project

from aotbuild.cli.exit_codes import PACKAGE, PARTIAL, UNUSABLE, USAGE
from aotbuild.jax_cache.entries import link_entries, write_entry
from aotbuild.worker import private as jax_private

MODEL = """
import dataclasses
import functools
from typing import NamedTuple
import jax
import jax.numpy as jnp

class State(NamedTuple):
    mean: jax.Array
    count: jax.Array

def first():
    return State(jnp.zeros(4), jnp.zeros((), jnp.int32))

def predict(params, x):
    return {"y": jnp.tanh(x @ params["w"]) + params["b"], "sum": x.sum()}

@functools.partial(jax.jit, static_argnames="causal")
def scale(x, *, by, causal=True):
    return jnp.where(causal, x, 0) * by

@functools.partial(jax.jit, donate_argnames="state")
def step(state, x):
    return State(state.mean * 0.9 + x, state.count + 1)

@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["weights"], meta_fields=["rule"]
)
@dataclasses.dataclass
class Learner:
    weights: jax.Array
    rule: object

def decay(rate):
    return lambda weights, gradient: weights - rate * gradient

RULE = decay(0.5)

def learner():
    return Learner(jnp.ones(3), RULE)

def learn(learner, gradient):
    return learner.rule(learner.weights, gradient)

def forget(pupil):
    return pupil.weights * 0

def noisy(key, x, unused):
    return x + jax.random.normal(key, x.shape)

def modes(x):
    return jnp.linalg.eigh(x @ x.T)

def wide(x):
    return x * 2

def over(w, x):
    return jnp.tanh(x @ w)

def printed(x):
    jax.debug.print("saw {}", x)
    return x + 1

W = jnp.ones((4, 4))
def hoisted(x):
    return x @ W

def edited(x):
    return x + 1

@jax.jit
def keeps(x):
    return x + 1
"""
MANIFEST = """\
version: 1
package: proj
targets: [cpu: {devices: 1}, cpu: {devices: 4}]
defaults: {purity: skip, verify: {golden: never}}
functions:
  predict:
    call: proj.model:predict
    args: [params: {w: "f32[8,4]", b: "f32[4]"}, x: "f32[n,8]"]
    dims: {n: [1, 2]}
  scale:
    call: proj.model:scale
    args: [x: "f32[4]"]
    kwargs: {by: "f32[]"}
    static: {causal: [true, false]}
  step:
    call: proj.model:step
    args: [state: {like: "proj.model:first"}, x: "f32[4]"]
    donate: [state]
  learn:
    call: proj.model:learn
    args: [learner: {like: "proj.model:learner"}, gradient: "f32[3]"]
  forget: {call: "proj.model:forget", args: [pupil: {like: "proj.model:learner"}]}
  noisy: {call: "proj.model:noisy", args: [key: "key<fry>[]", x: "f32[5]", unused: "i32[2]"]}
  modes: {call: "proj.model:modes", args: [x: "f32[6,6]"]}
  wide: {call: "proj.model:wide", args: [x: "f64[6]"], config: {jax_enable_x64: true}}
  over:
    call: proj.model:over
    args: [w: "f32[8,4]", x: "f32[4,8]"]
    mesh: {data: 2, model: 2}
    in_shardings: {w: [null, model], x: [data, null]}
  printed: {call: "proj.model:printed", args: [x: "f32[3]"]}
  hoisted: {call: "proj.model:hoisted", args: [x: "f32[4]"], constants: hoist}
  edited: {call: "proj.model:edited", args: [x: "f32[3]"]}
  keeps: {call: "proj.model:keeps", args: [x: "f32[3]"], donate: [x]}
  tuned:
    call: proj.model:keeps
    args: [x: "f32[3]"]
    compiler_options: {xla_cpu_enable_fast_math: true}
"""
# A program that has the project, jax and nothing of aotbuild. It counts hits of jax's cache.
PROGRAM = """
import collections, json, sys
import jax, jax.monitoring, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from proj import model

jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_raise_persistent_cache_errors", True)
counts, found = collections.Counter(), {}
jax.monitoring.register_event_listener(lambda event, **_: counts.update([event.split("/")[-1]]))

def call(name, function, *args, **kwargs):
    before = counts.copy()
    result = jax.block_until_ready(function(*args, **kwargs))
    new = counts - before
    found[name] = [new["cache_hits"], new["compile_requests_use_cache"]]
    return result

random = np.random.RandomState(0)
w, b, x = (random.randn(*shape).astype("f") for shape in ((8, 4), (4,), (2, 8)))
params, device, close = {"w": w, "b": b}, jax.devices()[0], np.testing.assert_allclose
for rows in (x[:1], x):
    result = call(f"predict {len(rows)}", jax.jit(model.predict), params, rows)
    close(result["y"], np.tanh(rows @ w) + b, rtol=1e-5)
    close(result["sum"], rows.sum(), rtol=1e-5)
placed = jax.device_put((params, x), device)
close(call("committed", jax.jit(model.predict), *placed)["sum"], x.sum(), rtol=1e-5)
mixed = jax.device_put(params, device)
close(call("params committed", jax.jit(model.predict), mixed, x)["sum"], x.sum(), rtol=1e-5)
close(call("scale", model.scale, b, by=np.float32(2)), b * 2)
close(call("scale static", model.scale, b, by=np.float32(2), causal=False), b * 0)
state = model.State(jax.device_put(b), jax.device_put(np.int32(3)))
after = call("step", model.step, state, b)
close(after.mean, b * np.float32(0.9) + b, rtol=1e-6)
assert int(after.count) == 4 and state.mean.is_deleted()
learned = call("learn", jax.jit(model.learn), model.Learner(b[:3], model.RULE), b[1:])
close(learned, b[:3] - 0.5 * b[1:], rtol=1e-6)
noise = call("noisy", jax.jit(model.noisy), jax.random.key(7), np.zeros(5, "f"), np.zeros(2, "i"))
close(noise, jax.random.normal(jax.random.key(7), (5,)), rtol=1e-5)
square = random.randn(6, 6).astype("f")
values = call("modes", jax.jit(model.modes), square)[0]
close(values, np.linalg.eigh(square @ square.T)[0], rtol=0.01, atol=1e-4)
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
y = random.randn(4, 8).astype("f")
spread = [jax.device_put(v, NamedSharding(mesh, P(*s)))
          for v, s in ((w, (None, "model")), (y, ("data", None)))]
close(call("over", jax.jit(model.over), *spread), np.tanh(y @ w), rtol=1e-5)
close(call("printed", jax.jit(model.printed), y[0, :3]), y[0, :3] + 1)
close(call("edited", jax.jit(model.edited), y[0, :3]), y[0, :3] + 2)
close(call("keeps", model.keeps, y[0, :3]), y[0, :3] + 1)
jax.config.update("jax_enable_x64", True)
assert call("wide", jax.jit(model.wide), np.ones(6)).dtype == "float64"
jax.effects_barrier()
print(json.dumps(found))
"""
EXPORT = """
import sys
from aotbuild.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was built, and one of its functions edited since."""
    root = write_project(tmp_path_factory.mktemp("exported"), MANIFEST, model=MODEL)
    build(root)
    edited = MODEL.replace("def edited(x):\n    return x + 1", "def edited(x):\n    return x + 2")
    (root / "proj" / "model.py").write_text(edited, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def exported(project: Path) -> dict[str, Any]:
    """What the command says, as `--json` prints it."""
    options = ("--committed", "params", "--like", "learner=proj.model:learner", "--json")
    arguments = ("export-cache", str(project / "cache"), str(project / "proj"), *options)
    done = run_fresh(EXPORT, *arguments, devices=4, path=project, check=False)
    assert done.returncode == PARTIAL, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.process
def test_plain_jit_finds_the_entries(project: Path, exported: dict[str, Any]) -> None:
    found = fresh(PROGRAM, str(project / "cache"), devices=4, path=project)
    # Not served: they were not exported, for a reason that the command told.
    missed = {"edited", "keeps"} | (set() if jax_private.cache_binds_callbacks() else {"printed"})
    assert {name for name, (hits, _) in found.items() if not hits} == missed
    assert all(hits == requests for name, (hits, requests) in found.items() if name not in missed)


@pytest.mark.process
def test_what_cannot_be_exported_has_a_reason(exported: dict[str, Any]) -> None:
    reasons = {e["signature"]: e["reason"] for e in exported["entries"] if e["reason"]}
    printed = reasons.pop("printed()", "")
    assert ("does not bind" in printed) is not jax_private.cache_binds_callbacks()
    assert set(reasons) == {"hoisted()", "edited()", "keeps()", "tuned()", "forget()"}
    assert "compiled with compiler_options {'xla_cpu_enable_fast_math': True}" in reasons["tuned()"]
    assert "the record does not hold all of pupil (a proj.model:Learner" in reasons["forget()"]
    assert reasons["forget()"].endswith("--like pupil=MODULE:ATTR")
    assert reasons["hoisted()"].startswith("its constants are hoisted")
    assert "the source is not what was compiled" in reasons["edited()"]
    assert "the jit in the source has other options than the manifest" in reasons["keeps()"]


@pytest.mark.process
def test_what_the_keys_depend_on_is_told(project: Path, exported: dict[str, Any]) -> None:
    facts = exported["facts"]
    assert (facts["jax"], facts["platform"], facts["devices"]) == (jax.__version__, "cpu", 4)
    assert "device_count=4" in facts["XLA_FLAGS"]
    (note,) = exported["notes"]
    assert note.startswith("wide() was traced with jax_enable_x64=True, which here is False")
    keys = [key for entry in exported["entries"] for key in entry["written"]]
    assert len(keys) == len(set(keys))
    files = {f"{key}{end}" for key in keys for end in ("-cache", "-atime")}
    assert {path.name for path in (project / "cache").iterdir()} == files
    assert len(facts["topology"]) == 16
    assert facts["jax_compilation_cache_dir"] == str(project / "cache")
    # Keys of one executable share its file.
    (predict,) = (e["written"] for e in exported["entries"] if e["signature"] == "predict(n=1)")
    assert len({(project / "cache" / f"{key}-cache").stat().st_ino for key in predict}) == 1


@pytest.mark.process
def test_a_folder_that_cannot_be_written(project: Path) -> None:
    arguments = ("export-cache", "/proc/cache", str(project / "proj"), "--function", "predict")
    done = run_fresh(EXPORT, *arguments, path=project, check=False)
    assert done.returncode == UNUSABLE
    assert done.stderr.endswith(
        "/proc/cache: cannot be written: no such file\n"
        "What was written so far stays; each entry is whole.\n"
    )


def test_a_full_disk_leaves_no_time_without_its_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        if path.name.endswith("-cache"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        path.write_bytes(data)

    monkeypatch.setattr("aotbuild.jax_cache.entries.write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        write_entry(tmp_path, "jit_f-00", b"one", overwrite=False)
    assert [*tmp_path.iterdir()] == []


def test_an_entry_that_is_there_stays(tmp_path: Path) -> None:
    assert write_entry(tmp_path, "jit_f-00", b"one", overwrite=False)
    assert not write_entry(tmp_path, "jit_f-00", b"two", overwrite=False)
    assert (tmp_path / "jit_f-00-cache").read_bytes() == b"one"
    assert write_entry(tmp_path, "jit_f-00", b"two", overwrite=True)
    assert write_entry(tmp_path, "jit_f-01", b"two", overwrite=False)
    link_entries(tmp_path, ["jit_f-00", "jit_f-01"])
    first, second = (tmp_path / f"jit_f-0{number}-cache" for number in (0, 1))
    assert first.samefile(second)
    assert second.read_bytes() == b"two"


def test_modules_differ_where_the_computation_does() -> None:
    aval = jax.ShapeDtypeStruct((3,), "float32")
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    placed = jax.ShapeDtypeStruct((3,), "float32", sharding=here)

    def one(x: Any) -> Any:
        return {"a": x + 1}

    def same(y: Any) -> Any:
        return [y + 1]

    def other(x: Any) -> Any:
        return {"a": x + 2}

    def module(function: Any, argument: Any = aval, **options: Any) -> bytes:
        return jax_private.plain_module(jax.jit(function, **options).lower(argument))

    assert module(one) == module(same) == module(one, placed)
    assert module(one) != module(other)
    assert module(one) != module(one, donate_argnums=0)
    keys = {jax_private.cache_key(jax.jit(f).lower(aval)) for f in (one, same, other)}
    assert len(keys) == 3


@pytest.mark.process
def test_wrong_names_are_usage_errors(project: Path, tmp_path: Path) -> None:
    place = project / "proj"
    result = run("export-cache", tmp_path, place, "--function", "predikt", code=USAGE)
    assert "the package has no function 'predikt'" in result.output
    result = run("export-cache", tmp_path, place, "--committed", "parms", code=USAGE)
    assert "no function has an argument 'parms'" in result.output
    result = run("export-cache", tmp_path, place, "--like", "learner", code=USAGE)
    assert "expected NAME=MODULE:ATTR, found 'learner'" in result.output
    result = run("export-cache", tmp_path, "no_such_package", code=PACKAGE)
    assert "no_such_package" in result.output
