"""`like:`: what a function returns, traced or run for real, with dims and static arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import build, failed_units, in_each, write_project

from aotbuild.runtime.checked_blobs import DirectorySource, open_index

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

SOURCE = """
import pathlib
from typing import Any, NamedTuple

import jax
import jax.experimental.layout
import jax.numpy as jnp
import numpy as np

LOG = pathlib.Path(__file__).with_name("log")


def log(text):
    with LOG.open("a") as file:
        file.write(f"{text}\\n")


def window(batch, mode, sizes):
    assert isinstance(sizes, tuple)
    rows = batch if mode == "whole" else 10 * batch
    return {"w": jnp.zeros((rows, *sizes)), "scale": 2, "n": np.zeros(2, np.int8)}


def use(window, x, mode, sizes):
    return window["w"] * window["scale"] + x


def neighbors(batch):
    log(f"neighbors {batch}")
    positions = jax.random.uniform(jax.random.key(0), (batch, 3))
    near = jnp.sum(jnp.linalg.norm(positions[:, None] - positions, axis=-1) < 10.0)
    return jnp.zeros((int(near), 2), jnp.int32)


def count(near, again):
    return near.sum() + again.sum()


class State(NamedTuple):
    shape: Any
    values: Any


def shapes():
    return State(jax.ShapeDtypeStruct((2,), jnp.bfloat16), jax.eval_shape(lambda: jnp.ones(3)))


def total(state):
    return state.values.sum() + state.shape.sum()


def named():
    return {"a": jnp.zeros(3), "activation": jax.nn.relu, "name": "adam"}


def raises(batch):
    raise ValueError("no box")


tree = {"a": jnp.zeros(3)}

wide = {
    "f": jax.ShapeDtypeStruct((2,), np.float64, weak_type=True),
    "i": jax.ShapeDtypeStruct((2,), np.int64),
    "c": jax.ShapeDtypeStruct((2,), np.complex128),
    "n": np.zeros(2),
}


def sharded_aval(*axes, **options):
    # The devices of a build: as many as the mesh needs, or one.
    mesh = jax.sharding.AbstractMesh((2,), ("x",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes), **options)


split = {"w": jax.ShapeDtypeStruct((4,), np.float32, sharding=sharded_aval("x"))}
whole = {"w": jax.ShapeDtypeStruct((4,), np.float32, sharding=sharded_aval())}
on_host = jax.ShapeDtypeStruct((4,), np.float32, sharding=sharded_aval(memory_kind="pinned_host"))
big_endian = [np.zeros(2, ">f4")]
big_endian_aval = [jax.ShapeDtypeStruct((2,), np.dtype(">f4"))]


def column_major():
    one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    layout = jax.experimental.layout.Layout((1, 0))
    form = jax.experimental.layout.Format(layout, one)
    return jax.ShapeDtypeStruct((4, 4), np.float32, sharding=form)


columns = jax.device_put(np.ones((4, 4), np.float32), column_major().format)
add_columns = lambda x: x + columns
offload = lambda x: [x, jax.device_put(x, jax.memory.Space.Host)]

# Takes arrays only, as distributions do.
class Normal:
    def __init__(self, loc, scale):
        self.loc, self.scale = jnp.asarray(loc), jnp.asarray(scale)


jax.tree_util.register_pytree_node(
    Normal, lambda d: ((d.loc, d.scale), "normal"), lambda _, children: Normal(*children)
)


def normal():
    return Normal(jnp.zeros(2), 2.0)


def first(x):
    return jax.tree.leaves(x)[0] * 2
"""

GOOD = in_each(
    """
version: 1
package: proj
targets: [cpu, portable]
functions:
  use:
    call: proj.m:use
    args:
      - window: {like: "proj.m:window", dims: [batch], static: [mode, sizes]}
      - x: "f32[]"
    dims: {batch: [2, 3]}
    static: {mode: [whole, row], sizes: [[4, 5]]}
  count:
    call: proj.m:count
    args:
      - near: {like: "proj.m:neighbors", dims: [batch], like_run: true}
      - again: {like: "proj.m:neighbors", dims: [batch], like_run: true}
    dims: {batch: [2, 3]}
  total: {call: "proj.m:total", args: [state: {like: "proj.m:shapes"}]}
  wide: {call: "proj.m:first", args: [x: {like: "proj.m:wide"}]}
  whole: {call: "proj.m:first", args: [x: {like: "proj.m:whole"}]}
  split:
    call: proj.m:first
    args: [x: {like: "proj.m:split"}]
    mesh: {x: 2}
    in_shardings: {x: {w: [x]}}
""",
    "verify: {golden: never}",
)

BAD = """
version: 1
package: proj
targets: [cpu, portable]
functions:
  no_run: {call: "proj.m:first", args: [x: {like: "proj.m:neighbors", dims: [batch]}],
           dims: {batch: 2}}
  raised:
    call: proj.m:first
    args: [x: {like: "proj.m:raises", dims: [batch], like_run: true}]
    dims: {batch: 2}
  object: {call: "proj.m:first", args: [x: {like: "proj.m:tree", dims: [n], like_run: true}],
           dims: {n: 1}}
  leaf: {call: "proj.m:first", args: [x: {like: "proj.m:named"}]}
  arrays_only: {call: "proj.m:first", args: [x: {like: "proj.m:normal"}]}
  split: {call: "proj.m:first", args: [x: {like: "proj.m:split"}]}
  on_host: {call: "proj.m:first", args: [x: {like: "proj.m:on_host"}]}
  column: {call: "proj.m:first", args: [x: {like: "proj.m:column_major"}]}
  hoisted: {call: "proj.m:add_columns", args: [x: "f32[4,4]"], constants: hoist}
  offload: {call: "proj.m:offload", args: [x: "f32[4]"]}
  order: {call: "proj.m:first", args: [x: {like: "proj.m:big_endian"}]}
  order_of_aval: {call: "proj.m:first", args: [x: {like: "proj.m:big_endian_aval"}]}
  explicit: {call: "proj.m:first", args: [x: "f64[2]"], config: {jax_explicit_x64_dtypes: allow}}
  symbol:
    call: proj.m:first
    args: [x: {like: "proj.m:neighbors", dims: [batch], like_run: true}]
    dims: {batch: 2}
    export: {dims: {batch: b}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_project(tmp_path_factory.mktemp("like"), GOOD, m=SOURCE)
    return build(root).folder


def leaves(folder: Path, name: str) -> set[tuple[str, ...]]:
    records = open_index(DirectorySource(folder)).records(name)
    return {tuple(map(str, record.signature.leaves)) for record in records}


def test_dims_and_static_arguments_come_together(built: Path) -> None:
    assert leaves(built, "use") == {
        ("i8[2]", "~i32[]", f"f32[{rows},4,5]", "f32[]") for rows in (2, 3, 20, 30)
    }


def test_like_run_runs_it_once_in_each_process(built: Path) -> None:
    assert leaves(built, "count") == {("i32[4,2]", "i32[4,2]"), ("i32[9,2]", "i32[9,2]")}
    log = (built.parent / "log").read_text().splitlines()
    # A job has two processes: the second shows that the program is the same again.
    assert sorted(log) == ["neighbors 2"] * 2 + ["neighbors 3"] * 2


def test_shapes_as_a_function_returns_them(built: Path) -> None:
    assert leaves(built, "total") == {("bf16[2]", "f32[3]")}


def test_64_bits_are_what_jit_makes_of_them(built: Path) -> None:
    assert leaves(built, "wide") == {("c64[2]", "~f32[2]", "i32[2]", "f32[2]")}


def test_shardings_of_a_reference(built: Path) -> None:
    assert leaves(built, "whole") == leaves(built, "split") == {("f32[4]",)}


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = write_project(tmp_path_factory.mktemp("bad"), BAD, m=SOURCE)
    return failed_units(root)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("no_run", ["like: proj.m:neighbors gave no tree of arrays", "like_run: true in the spec"]),
        ("raised", ["proj.m:raises raised; it was called with (batch=2)", "ValueError: no box"]),
        ("object", ["tree is a builtins.dict, not a function: like_run and dims cannot apply;"]),
        ("leaf", ["args.x: like: proj.m:named['activation'] is a ", "set wrap: eqx.filter_jit"]),
        ("arrays_only", ["normal: a type in this tree takes arrays only", "make the object"]),
        ("split", ["proj.m:split['w'] is sharded as P", "shardings under in_shardings:."]),
        ("on_host", ["like: proj.m:on_host is in memory of kind pinned_host"]),
        ("column", ["like: proj.m:column_major has a layout, major_to_minor (1, 0)"]),
        ("offload", ["m:offload returns an array at result[1] in the host's memory; results are"]),
        ("hoisted", ["array f32[4,4] has a layout, major_to_minor (1, 0); a hoisted constant has"]),
        ("order", ["like: proj.m:big_endian[0] has dtype >f4", "array.astype("]),
        ("order_of_aval", ["like: proj.m:big_endian_aval[0] has dtype >f4"]),
        ("explicit", ["float64 needs 64-bit mode; set", "Under jax_explicit_x64_dtypes: allow"]),
        ("symbol", ["and the portable form has symbols here: batch=b", "or out of this spec."]),
    ],
)  # fmt: skip
def test_refused(failures: dict[str, str], name: str, parts: list[str]) -> None:
    for part in parts:
        assert part in failures[name], failures[name]
