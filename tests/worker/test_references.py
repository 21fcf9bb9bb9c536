"""Static data that cannot be read: compared by `==` with that of what the manifest names."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from support.forks import forked
from support.processes import fresh
from support.projects import build, failed_units, in_each, write_project

from aotbuild.format.record import Template
from aotbuild.runtime.checked_blobs import DirectorySource, open_index

pytestmark = pytest.mark.process

# How one is shown: by its format since Python 3.13, and by its address before.
A_STRUCT = repr(struct.Struct("<i")).partition(" at ")[0]

# memoryview and struct.Struct are objects of C whose state no pickle has; the first compares its
# bytes, the second is equal to itself alone.
RULES = """
import collections

import numpy as np


class Rule:
    def __init__(self, text):
        self.text = memoryview(text.encode())

    def __eq__(self, other):
        if b"worse" in (self.text, getattr(other, "text", None)):
            raise ValueError("cannot say")
        return isinstance(other, Rule) and self.text == other.text

    def __hash__(self):
        return hash(self.text)

    def __repr__(self):
        return f"Rule({bytes(self.text).decode()!r})"

    def __call__(self):
        return 0


TABLE = collections.defaultdict(Rule("zero"), {"w": np.ones(3, np.float32)})


def table(table):
    return table["w"] * 2
"""
SOURCE = """
import dataclasses
import functools
import struct
from typing import Any

import jax
import numpy as np

from proj.rules import Rule


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["rule", "name"]
)
@dataclasses.dataclass
class State:
    x: Any
    rule: Any = dataclasses.field(metadata={"static": True})
    name: str = dataclasses.field(default="state", metadata={"static": True})


CODEC = struct.Struct("<i")
TEMPLATE = State(np.ones(3, np.float32), CODEC)
CALLS = []


def sized(n, mode="slow"):
    CALLS.append((n, mode))
    return State(np.ones(n, np.float32), Rule(f"{n} {mode}"))


def step(state):
    return State(state.x * 2, state.rule, state.name)


def both(pair, mode):
    return pair["b"]["state"].x + 1, pair["a"]


def anew():
    return State(np.ones(3, np.float32), struct.Struct("<i"))


def pads(n):
    return State(np.ones(n, np.float32), (CODEC, {"inner": [CODEC]}))


def worse():
    return State(np.ones(3, np.float32), Rule("worse"))
"""
GOOD = in_each(
    """
version: 1
package: proj
targets: [cpu, portable]
functions:
  step:
    call: proj.m:step
    args: [{state: {like: "proj.m:TEMPLATE"}}]
  sized:
    call: proj.m:step
    args: [{state: {like: "proj.m:sized", dims: [n]}}]
    dims: {n: [2, 3]}
  both:
    call: proj.m:both
    args: [{pair: {b: {state: {like: "proj.m:sized", dims: [n], static: [mode]}}, a: "f32[2]"}}]
    dims: {n: [2]}
    static: {mode: [slow, fast]}
  pads:
    call: proj.m:step
    args: [{state: {like: "proj.m:pads", dims: [n]}}]
    dims: {n: [2, 4]}
    pad: {n: 0}
  table: {call: "proj.rules:table", args: [{table: {like: "proj.rules:TABLE"}}]}
""",
    "verify: {golden: never}",
)
BAD = """
version: 1
package: proj
functions:
  anew: {call: "proj.m:step", args: [{state: {like: "proj.m:anew"}}]}
  again: {call: "proj.m:step", args: [{state: {like: "proj.m:anew", like_run: true}}]}
  worse: {call: "proj.m:step", args: [{state: {like: "proj.m:worse"}}]}
"""
LOAD = """
import collections, json, sys
import numpy as np
import aotbuild
from aotbuild.errors import AotbuildError

def refusal(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except AotbuildError as err:
        return str(err).splitlines()
"""
REMEDY = (
    "Call it with what was compiled, or add this call to the manifest and build again. "
    "AOTBUILD_FALLBACK=jit compiles such calls when they are made."
)
SUMMARY = "an argument's static data is not what was compiled"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_project(tmp_path_factory.mktemp("references"), GOOD, m=SOURCE, rules=RULES)
    build(root)
    return root


def test_the_index_names_templates(root: Path) -> None:
    index = open_index(DirectorySource(root / "proj" / "_aot"))
    step = index.function("step")
    assert step is not None
    assert step.references == (("state.rule", (0, 0), 0, "proj.m:TEMPLATE"),)
    for record in index.records("step"):
        assert record.calling.templates == (Template("proj.m:TEMPLATE", (), (0, 0)),)
        data = {"tuple": [{"reference": "proj.m:TEMPLATE"}, "state"]}
        assert record.signature.tree[1][1] == ["node", "proj.m:State", data, "*"]
    found = {record.calling.templates for record in index.records("both")}
    # b is the second key in jax's order.
    values = [(("n", 2), ("mode", mode)) for mode in ("fast", "slow")]
    assert found == {(Template("proj.m:sized", each, (0, 0, 1, 0)),) for each in values}


def test_calls_compare(root: Path) -> None:
    code = f"""{LOAD}
lib = aotbuild.load("proj")
assert "proj" not in sys.modules
from proj import m
x = np.ones(3, np.float32)
# By a kernel of its own: jit's cache compares with what it was given, and raises what == raises.
raises = refusal(aotbuild.load("proj").sized, m.State(x, m.Rule("worse")))
done = lib.step(m.State(x, m.CODEC))
assert done.rule is m.CODEC
done = lib.step(done)
two = [lib.sized(m.State(np.ones(n, np.float32), m.Rule(f"{{n}} slow"))).x.sum() for n in (2, 3)]
lib.sized(m.State(x, m.Rule("3 slow")))
pair = lambda text: {{"b": {{"state": m.State(x[:2], m.Rule(text))}}, "a": x[:2]}}
lib.both(pair("2 fast"), mode="fast")
def gone():
    from aotbuild.runtime import named_objects
    named_objects._TREES.clear()
    del m.TEMPLATE
    return str(lib.explain("step", done).error).splitlines()
print(json.dumps({{
    "done": np.asarray(done.x).tolist(), "two": [float(each) for each in two],
    "calls": [*m.CALLS],
    "other": refusal(lib.step, m.anew()),
    "kind": refusal(lib.step, m.State(x, m.Rule("1"))),
    "row": refusal(lib.sized, m.State(x, m.Rule("2 slow"))),
    "padded": lib.pads(m.pads(3)).x.tolist(),
    "inside": refusal(lib.pads, m.State(x, (m.CODEC, {{"inner": [m.anew().rule]}}))),
    "mode": refusal(lib.both, pair("2 fast"), mode="slow"),
    "raises": raises,
    "readable": refusal(lib.step, m.State(x, "text")),
    "name": refusal(lib.step, m.State(x, m.CODEC, "another")),
    "explained": [line for line in str(lib.explain("step", done)).splitlines() if "ompare" in line],
    "gone": gone(),
}}))
"""
    found: dict[str, Any] = fresh(code, path=root)
    assert found["done"] == [4, 4, 4]
    assert found["two"] == [4, 6]
    assert found["calls"] == [[3, "slow"], [2, "slow"], [2, "fast"]]
    place, like = "  state.rule: compared with that of", "proj.m:TEMPLATE"
    assert found["other"][0] == f"step: {SUMMARY}"
    assert found["other"][1].startswith(f"{place} {like}: that is {A_STRUCT}")
    assert found["other"][2] == REMEDY
    kinds = "that is a _struct.Struct, this is a proj.rules.Rule"
    assert found["kind"] == [f"step: {SUMMARY}", f"{place} {like}: {kinds}", REMEDY]
    assert (
        found["row"][1] == f"{place} proj.m:sized: that is Rule('3 slow'), this is Rule('2 slow')"
    )
    assert found["gone"][1] == "  expected the tree that it was when the package was built"
    assert found["padded"] == [2, 2, 2]
    inside = f"at [1]['inner'][0] that is {A_STRUCT}"
    assert found["inside"][1].startswith(f"{place} proj.m:pads: {inside}")
    assert found["mode"][1] == (
        "  pair['b']['state'].rule: compared with that of proj.m:sized: "
        "that is Rule('2 slow'), this is Rule('2 fast')"
    )
    assert found["raises"][1].endswith("comparing them by == raised ValueError: cannot say")
    line = "  state.rule: compiled with that of proj.m:TEMPLATE, called with 'text'"
    assert line in found["readable"]
    assert "  state.name: compiled with 'state', called with 'another'" in found["name"]
    assert found["explained"] == ["  compared state.rule with that of proj.m:TEMPLATE"]


def test_calls_compare_without_jax(root: Path) -> None:
    """The numpy backend knows a few types of nodes, and a template is imported for it alike."""
    code = f"""{LOAD}
from proj import rules
lib = aotbuild.load("proj", arrays="numpy")
table = lambda text: collections.defaultdict(rules.Rule(text), rules.TABLE)
print(json.dumps([lib.table(table("zero")).tolist(), refusal(lib.table, table("one"))[1]]))
assert "jax" not in sys.modules
"""
    found = fresh(code, path=root)
    reason = "that is Rule('zero'), this is Rule('one')"
    line = f"  table<static>[0]: compared with that of proj.rules:TABLE: {reason}"
    assert found == [[2, 2, 2], line]


@pytest.mark.any_jax
@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("TEMPLATE = ", "TEMPLATES = ", "AttributeError: module 'proj.m' has no attribute"),
        ("TEMPLATE = State(", "TEMPLATE = (", "a builtins.tuple at [], not a proj.m.State"),
    ],
)
def test_another_template_is_an_error(
    root: Path, tmp_path: Path, old: str, new: str, found: str
) -> None:
    changed = Path(shutil.copytree(root, tmp_path / "changed"))
    (changed / "proj" / "m.py").write_text(SOURCE.replace(old, new, 1), encoding="utf-8")
    code = f"""{LOAD}
from proj import m
lib = aotbuild.load("proj")
print(json.dumps(refusal(lib.step, m.State(np.ones(3, np.float32), m.CODEC))))
"""
    lines = forked(code, path=changed)
    assert lines[0] == (
        "proj.m:TEMPLATE, which the manifest names under like:, has static data that arguments are "
        "compared with"
    )
    assert lines[2].startswith(f"  found    {found}")
    assert lines[3].startswith("Install the package that defines it, in the version of the build")


@pytest.mark.any_jax
def test_what_each_call_would_refuse(tmp_path: Path) -> None:
    failures = failed_units(write_project(tmp_path, BAD, m=SOURCE, rules=RULES))
    for name in ("anew", "again"):
        lines = failures[name].splitlines()
        assert "cannot be compared in another process: .rule: a _struct.Struct keeps" in lines[0]
        assert lines[1].startswith(
            "Nor can calls compare state.rule with that of proj.m:anew, which is another each time "
            f"it is made: that is {A_STRUCT}"
        )
        assert lines[2].startswith("Make the object once, in a module, or give its type __eq__.")
    assert "comparing them by == raised ValueError: cannot say" in failures["worse"]
