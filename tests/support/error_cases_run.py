"""Produces the errors that users meet most with a built package. See test_error_texts.py."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from attacks import wheels

import aotbuild
from aotbuild.format.aval import Aval
from aotbuild.format.index import write_index
from aotbuild.format.left_out import AllLeftOut, LeftOut, left_out_header
from aotbuild.format.record import PYTHON_CALL, HostCallback, Template
from aotbuild.wheels.split import split
from support import static_model
from support.error_cases import Place, X, collector, command, library, raised, scored
from support.packages import build, write
from support.processes import fresh
from support.projects import write_project
from support.reports import HEADER, make_function, make_record, write_package
from support.wheel_files import everywhere, for_target, put_wheel, unpack

CASES, case = collector()


# --- loading --------------------------------------------------------------------------------------


@case
def load_package_not_found(place: Place) -> str:
    place.patch.setattr("sys.path", [str(place.root)])
    return raised(lambda: aotbuild.load("porj"))


@case
def load_no_artifacts(place: Place) -> str:
    write_project(place.root / "site-packages", "")
    place.patch.setattr("sys.path", [str(place.root / "site-packages")])
    return raised(lambda: aotbuild.load("proj"))


@case
def load_without_jax(place: Place) -> str:
    folder = place.root / "_aot"
    folder.mkdir()
    header = {"package": "proj", "jax": jax.__version__}
    (folder / "index").write_bytes(write_index(header, [], []))
    find = importlib.util.find_spec
    place.patch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "jax" else find(name, *a)
    )
    return raised(lambda: aotbuild.load(folder))


def damaged(place: Place, change: Callable[[bytes], bytes]) -> str:
    index = write(place.root, [scored()], package="proj") / "index"
    index.write_bytes(change(index.read_bytes()))
    return raised(lambda: aotbuild.load(index.parent))


@case
def load_index_truncated(place: Place) -> str:
    return damaged(place, lambda data: data[:1000])


@case
def load_index_edited(place: Place) -> str:
    return damaged(place, lambda data: data.replace(b'"fallback":"none"', b'"fallback":"jits"'))


@case
def load_newer_format(place: Place) -> str:
    return damaged(place, lambda data: data.replace(b"index 1\n", b"index 2\n", 1))


@case
def load_other_companion(place: Place) -> str:
    one = put_wheel(place.root / "one" / wheels.NAME, everywhere([scored()]))
    other = put_wheel(place.root / "other" / wheels.NAME, everywhere([scored(), scored(batch=8)]))
    for number, wheel in enumerate([one, other]):
        unpack(split(wheel, wheel.parent / "parts").wheels[number], place.root / "site")
    place.patch.syspath_prepend(str(place.root / "site"))
    return raised(lambda: aotbuild.load("demo"))


@case
def merge_refused(place: Place) -> str:
    one = put_wheel(place.root / "demo-1.0-py3-none-linux_x86_64.whl", [scored()])
    code = {"demo/__init__.py": b"# changed meanwhile"}
    arm = [for_target(scored(), "cpu:aarch64:1")]
    other = put_wheel(place.root / "demo-1.0-py3-none-linux_aarch64.whl", arm, changes=code)
    result = command(place, place.root, 7, "merge", one.name, other.name, "--out", "out")
    return result.stderr


@case
def split_nothing(place: Place) -> str:
    wheel = put_wheel(place.root / wheels.NAME, [scored()])
    return command(place, place.root, 7, "split", wheel.name, "--out", "out").stderr


# --- calling --------------------------------------------------------------------------------------


@case
def call_damaged_blob(place: Place) -> str:
    built = scored()
    opened = library(place, built)
    path = place.root / "_aot" / built.record.blob.path
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    return raised(lambda: opened.score(X, "relu"))


@case
def call_other_results(place: Place) -> str:
    built = scored()
    calling = replace(built.record.calling, outputs=(Aval((4096,), "float32"),))
    record = replace(built.record, calling=calling, provenance={"label": "score()"})
    return raised(lambda: library(place, replace(built, record=record)).score(X, "relu"))


@case
def call_git_lfs_pointer(place: Place) -> str:
    built = scored()
    opened = library(place, built)
    path = place.root / "_aot" / built.record.blob.path
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    return raised(lambda: opened.score(X, "relu"))


@case
def call_unknown_function(place: Place) -> str:
    return raised(lambda: library(place, scored()).scroe)


@case
def call_other_shape(place: Place) -> str:
    opened = library(place, scored(1), scored(8), scored(32), scored(64))
    return raised(lambda: opened.score(np.ones((2, 16), "float32"), "relu"))


@case
def call_compiled_in(place: Place) -> str:
    built = scored()
    parameters = [["x", "positional_or_keyword"], ["activation", "positional_or_keyword"]]
    parameters.append(["scale", "positional_or_keyword", 1.0])
    function = replace(built.function, about={"parameters": parameters})
    opened = library(place, replace(built, function=function))
    return raised(lambda: opened.score(X, "relu", scale=2.0))


@case
def bucket_too_large(place: Place) -> str:
    opened = library(place, scored(1), scored(8), scored(32))
    return raised(lambda: opened.bucket("score", batch=33))


@case
def call_other_dtype(place: Place) -> str:
    opened = library(place, scored())
    return raised(lambda: opened.score(np.ones((1, 16), "float16"), "relu"))


@case
def call_weak_type(place: Place) -> str:
    built = build("scale", lambda x: x * 2, {"x": np.float32(1.0)})
    return raised(lambda: library(place, built).scale(1.0))


@case
def call_other_static(place: Place) -> str:
    return raised(lambda: library(place, scored()).score(X, "tanh"))


@functools.partial(jax.tree_util.register_dataclass, data_fields=["params"], meta_fields=["tx"])
@dataclass
class TrainState:
    params: Any
    tx: Any = field(metadata={"static": True})


@case
def call_other_static_data(place: Place) -> str:
    one, other = (TrainState(X, static_model.scale(rate)) for rate in (0.001, 0.002))
    built = build("step", lambda state: state.tx.update([state.params]), {"state": one})
    record = replace(built.record, provenance={"label": "step()"})
    return raised(lambda: library(place, replace(built, record=record)).step(other))


TEMPLATE = TrainState(X, memoryview(b"a codec"))


@case
def call_other_reference(place: Place) -> str:
    built = build("step", lambda state: state.params * 2, {"state": replace(TEMPLATE, tx=None)})
    record, like = built.record, f"{__name__}:TEMPLATE"
    node = ["node", f"{__name__}:TrainState", {"tuple": [{"reference": like}]}, "*"]
    record = replace(
        record,
        signature=replace(record.signature, tree=["tuple", ["tuple", node], ["dict", []]]),
        calling=replace(record.calling, templates=(Template(like, (), (0, 0)),)),
    )
    function = replace(built.function, references=(("state.tx", (0, 0), 0, like),))
    opened = library(place, replace(built, record=record, function=function))
    other = replace(TEMPLATE, tx=memoryview(b"another"))
    text = raised(lambda: opened.step(other)).replace(like, "proj.model:init")
    return re.sub(r"at 0x\w+", "at 0x7f…", text)


@case
def call_no_callback(place: Place) -> str:
    made = scored()
    callback = HostCallback("pure", "proj.host:lookup", ["tuple", ["tuple", "*"], ["dict", []]])
    requires = replace(made.record.requires, custom_calls=(PYTHON_CALL,))
    calling = replace(made.record.calling, callbacks=(callback,))
    record = replace(made.record, requires=requires, calling=calling)
    return raised(lambda: library(place, replace(made, record=record)).score(X, "relu"))


@case
def call_left_out(place: Place) -> str:
    unit = LeftOut(
        function="score",
        signature="score(batch=2, activation='relu')",
        target="cpu:x86-64-v4:1",
        stage="trace",
        reason="proj.model:score raised while it was traced\n  at …/model.py:17 in score\n"
        "ValueError: no activation 'relo'",
        key=scored(2).record.signature.key(),
    )
    found = left_out_header(AllLeftOut((unit,)))
    opened = aotbuild.load(write(place.root, [scored()], package="proj", **found))
    return raised(lambda: opened.score(np.ones((2, 16), "float32"), "relu"))


@case
def call_argument_missing(place: Place) -> str:
    return raised(lambda: library(place, scored()).score(X))


@case
def call_not_an_array(place: Place) -> str:
    return raised(lambda: library(place, scored()).score("text", "relu"))


@case
def call_other_jaxlib(place: Place) -> str:
    opened = library(place, scored().replace(jaxlib="0.9.9"))
    return raised(lambda: opened.score(X, "relu"))


@case
def call_other_placement(place: Place) -> str:
    folder = write(place.root, [scored()], package="proj")
    code = """
import json, sys, jax, numpy as np, aotbuild
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("data",))
x = jax.device_put(np.ones((1, 16), "float32"), NamedSharding(mesh, P()))
try:
    aotbuild.load(sys.argv[1]).score(x, "relu")
except aotbuild.errors.InvalidArgument as err:
    print(json.dumps(str(err)))
"""
    return str(fresh(code, str(folder), devices=2))


@case
def call_on_another_device(place: Place) -> str:
    folder = write(place.root, [scored()], package="proj")
    code = """
import json, sys, jax, numpy as np, aotbuild
first, second = jax.devices()
x = jax.device_put(np.ones((1, 16), "float32"), first)
try:
    aotbuild.load(sys.argv[1]).on(second).score(x, "relu")
except aotbuild.errors.InvalidArgument as err:
    print(json.dumps(str(err)))
"""
    return str(fresh(code, str(folder), devices=2))


@case
def call_after_fork(place: Place) -> str:
    code = """
import json, os, sys
import aotbuild
library = aotbuild.load(sys.argv[1], arrays="numpy")
library.preload()
reading, writing = os.pipe()
if os.fork() == 0:
    try:
        library.preload()
    except aotbuild.errors.AotbuildError as error:
        os.write(writing, json.dumps(str(error)).encode())
    os._exit(0)
print(os.read(reading, 10_000).decode())
"""
    text = str(fresh(code, str(write(place.root, [scored()], package="proj"))))
    return re.sub(r"process \d+, forked from \d+", "process 4243, forked from 4242", text)


@case
def call_on_no_device(place: Place) -> str:
    return raised(lambda: library(place, scored()).on("cuda:1"))


@case
def call_donated_array(place: Place) -> str:
    built = build("step", lambda state: state + 1, {"state": X}, donate=["state"])
    opened, state = library(place, built, scored()), jnp.asarray(X)
    opened.step(state)
    return raised(lambda: opened.score(state, "relu"))


@case
def call_donated_twice(place: Place) -> str:
    def step(state: dict[str, Any]) -> dict[str, Any]:
        return {"average": 0.9 * state["average"] + state["params"], "params": -state["params"]}

    state = {"params": jnp.asarray(X), "average": jnp.asarray(X)}
    opened = library(place, build("step", step, {"state": state}, donate=["state"]))
    return raised(lambda: opened.step({**state, "params": state["average"]}))


@case
def call_inside_jit(place: Place) -> str:
    opened = library(place, scored())
    return raised(lambda: jax.jit(lambda x: opened.score(x, "relu"))(X))


MODEL = """
from functools import partial

import jax


@partial(jax.jit, static_argnames="activation")
def score(x, activation):
    return getattr(jax.nn, activation)(x) * 2
"""
SERVE = """
def handle(x):
    return score(x, activation="relu")
"""


@case
def call_forbidden(place: Place) -> str:
    for left_by_another_case in aotbuild.libraries():
        left_by_another_case.close()
    opened = library(place, scored(1), scored(8))
    model: dict[str, Any] = {"__name__": "proj.model"}
    exec(compile(MODEL.lstrip(), str(place.root / "proj" / "model.py"), "exec"), model)
    exec(compile(SERVE.lstrip(), str(place.root / "serve.py"), "exec"), model)

    def call() -> None:
        with aotbuild.guard("raise"):
            model["handle"](np.ones((2, 16), "float32"))

    text = raised(call)
    opened.close()
    return text


@case
def call_wrong_fallback(place: Place) -> str:
    place.patch.setenv("AOTBUILD_FALLBACK", "eager")
    return raised(lambda: library(place, scored()).score(X, "tanh"))


# --- inspecting -----------------------------------------------------------------------------------


def inspected(place: Place, kept: dict[str, bytes]) -> str:
    """Return what `inspect --hlo` prints about a package whose kept stages are beside it."""
    header = {**HEADER, "stages": "beside"} if kept else HEADER
    folder = write_package(place.root, [make_function()], [make_record(stages=kept)], header)
    return command(place, place.root, 7, "inspect", str(folder), "--hlo").stderr


@case
def inspect_stage_not_kept(place: Place) -> str:
    return inspected(place, {})


@case
def inspect_stages_not_found(place: Place) -> str:
    return inspected(place, {"hlo": b"HloModule f\n"})


# --- verifying ------------------------------------------------------------------------------------


@case
def verify_damaged_wheel(place: Place) -> str:
    built = scored()
    path = f"{wheels.AOT}/{built.record.blob.path}"
    files = wheels.with_record(wheels.wheel_files(wheels.aot_files([built])))
    files[path] = files[path][:-1] + bytes([files[path][-1] ^ 1])
    wheels.write_wheel(place.root / wheels.NAME, files.items())
    return command(place, place.root, 9, "verify", "--no-run", wheels.NAME).stdout
