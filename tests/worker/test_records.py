"""The short way to a record (`support.packages.build`) makes what a worker makes.

Tests of the runtime take it hundreds of times, without a process, a manifest or a trace. Here the
same functions go both ways, and each field of what comes out is compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.forks import forked
from support.projects import build, in_each, write_project

from aotbuild.format.record_json import record_to_json
from aotbuild.runtime.checked_blobs import DirectorySource, open_index

pytestmark = pytest.mark.process

MODEL = """
import jax, jax.numpy as jnp, numpy as np
TABLE = np.arange(64, dtype=np.float32).reshape(8, 8)
def plain(params, x, *, scale):
    return {"y": x @ params["w"] * scale, "params": params}
plain.trace = plain.lower = plain.eval_shape = lambda *args, **kwargs: "its own"
def chosen(x, mode, k=2):
    return (x * k if mode == "times" else x + k), k
def donor(state, x):
    return state + x
def hoisted(x):
    return x @ TABLE
def meshed(x, w):
    return x @ w
def solved(x):
    return jnp.linalg.svd(x, compute_uv=False)
def unused(x, y):
    return y * 2
def drawn(key, x):
    return jax.random.normal(key, (3,)) * x, jax.random.split(key, 2)
"""
MANIFEST = in_each(
    """
version: 1
package: proj
targets: [cpu, {portable: {platforms: [cpu]}}]
functions:
  plain:
    call: proj.model:plain
    args: [params: {w: "f32[4,2]"}, x: "f32[3,4]"]
    kwargs: {scale: "~f32[]"}
  chosen: {call: "proj.model:chosen", args: [x: "f32[4]"], static: {mode: times, k: 3}}
  donor: {call: "proj.model:donor", args: [state: "f32[16]", x: "f32[16]"], donate: [state]}
  hoisted: {call: "proj.model:hoisted", args: [x: "f32[2,8]"], constants: hoist}
  meshed:
    call: proj.model:meshed
    args: [x: "f32[4,4]", w: "f32[4,4]"]
    mesh: {data: 2}
    in_shardings: {x: [data, null], w: [null, null]}
    out_shardings: [data, null]
  solved: {call: "proj.model:solved", args: [x: "f32[5,5]"]}
  unused: {call: "proj.model:unused", args: [x: "f32[4]", y: "f32[4]"]}
  unused_kept: {call: "proj.model:unused", args: [x: "f32[4]", y: "f32[4]"], keep_unused: true}
  drawn: {call: "proj.model:drawn", args: [key: "key<fry>[]", x: "f32[]"]}
""",
    "verify: {golden: never}",
)
SHORT = """
import json, sys
from pathlib import Path
import jax, numpy as np
from support.packages import build, portable, write
from proj import model as m
def ones(*shape):
    return np.ones(shape, "float32")
def made(name, args, fn=None, **options):
    call = f"proj.model:{name.removesuffix('_kept')}"
    return build(name, fn or getattr(m, call.partition(":")[2]), args, call=call, **options)
TABLE = "proj.model.TABLE"
four, sharded = ones(4, 4), {"mesh": {"data": 2}, "out_spec": ("data", None)}
solved = made("solved", {"x": ones(5, 5)})
write(Path(sys.argv[1]), [
    made("plain", {"params": {"w": ones(4, 2)}, "x": ones(3, 4)}, kwargs={"scale": 1.0}),
    made("chosen", {"x": ones(4)}, statics={"mode": "times", "k": 3}, defaults={"k": 2},
         positional=["x", "mode", "k"]),
    made("donor", {"state": ones(16), "x": ones(16)}, donate=["state"]),
    made("hoisted", {"x": ones(2, 8)}, lambda x, **hoisted: x @ hoisted[TABLE],
         constants={TABLE: m.TABLE}),
    made("meshed", {"x": four, "w": four}, in_specs={"x": ("data", None), "w": (None, None)},
         **sharded),
    solved, portable(solved, m.solved),
    made("unused", {"x": ones(4), "y": ones(4)}),
    made("unused_kept", {"x": ones(4), "y": ones(4)}, keep_unused=True),
    made("drawn", {"key": jax.random.key(0), "x": np.float32(1)}),
])
print("null")
"""
# A worker also says how it compiled; the executables differ in names and in what they cost.
ONLY_REAL = ("analysis", "provenance", "blob")


def facts_of(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the fields of each record and of its function, by function and target."""
    index = open_index(DirectorySource(folder))
    return {
        (function.name, str(record.target)): {
            "function itself": function.to_json(),
            "blob kind": record.blob.kind,
            **record_to_json(record),
        }
        for function in index.functions()
        for record in index.records(function.name)
    }


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTBUILD_SHRINK", "off")
        return build(write_project(tmp_path_factory.mktemp("real"), MANIFEST, model=MODEL)).folder


@pytest.fixture(scope="module")
def short(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("short")
    forked(SHORT, str(root), devices=2, path=real.parent.parent)
    return root / "_aot"


def test_each_field_is_the_same(real: Path, short: Path) -> None:
    made, expected = facts_of(short), facts_of(real)
    assert len(made) == 10
    for key, facts in made.items():
        assert facts.keys() == expected[key].keys()
        for name in facts.keys() - set(ONLY_REAL):
            assert facts[name] == expected[key][name], (key, name)
        assert facts["analysis"] == facts["provenance"] == {}
