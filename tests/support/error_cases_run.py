"""Produces the errors that users meet most with a built package. See test_error_texts.py."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from attacks import wheels

import aotbuild
from aotbuild.format.index import write_index
from aotbuild.runtime.library import libraries
from aotbuild.wheels.split import split
from support.error_cases import Place, X, collector, command, library, raised, scored
from support.packages import write
from support.processes import fresh
from support.projects import write_project
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
def load_newer_format(place: Place) -> str:
    return damaged(place, lambda data: data.replace(b"index 1\n", b"index 2\n", 1))


@case
def load_other_companion(place: Place) -> str:
    one = put_wheel(place.root / "one" / wheels.NAME, everywhere([scored()]))
    other = put_wheel(place.root / "other" / wheels.NAME, everywhere([scored(), scored(batch=8)]))
    for number, wheel in enumerate([one, other]):
        unpack(split(wheel, wheel.parent / "parts")[number], place.root / "site")
    place.patch.syspath_prepend(str(place.root / "site"))
    return raised(lambda: aotbuild.load("demo"))


@case
def merge_refused(place: Place) -> str:
    one = put_wheel(place.root / "demo-1.0-py3-none-linux_x86_64.whl", [scored()])
    code = {"demo/__init__.py": b"# changed meanwhile"}
    arm = [for_target(scored(), "cpu:aarch64:1")]
    other = put_wheel(place.root / "demo-1.0-py3-none-linux_aarch64.whl", arm, changes=code)
    result = command(place, place.root, 6, "merge", one.name, other.name, "--out", "out")
    return result.stderr


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
def call_unknown_function(place: Place) -> str:
    return raised(lambda: library(place, scored()).scroe)


@case
def call_other_shape(place: Place) -> str:
    opened = library(place, scored(1), scored(8), scored(32), scored(64))
    place.patch.setitem(sys.modules, "proj", aotbuild)  # a source that jit can call
    return raised(lambda: opened.score(np.ones((2, 16), "float32"), "relu"))


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
    for left_by_another_case in libraries():
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
