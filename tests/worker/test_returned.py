"""`returns:`: results whose static data comes from a tree that the manifest names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.cli import invoke
from support.forks import forked
from support.projects import build, failed_units, write_project

from aotbuild.format.record import Record, Returned
from aotbuild.runtime.source import DirectorySource, open_index

pytestmark = pytest.mark.process

SOURCE = """
import functools
import pathlib
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

LOG = pathlib.Path(__file__).with_name("log")


@functools.partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["rule"])
@dataclass
class State:
    x: Any
    rule: Any


def decay(rate):
    return lambda x: x * rate


TEMPLATE = State(None, decay(0.5))


def begin(x):
    return {"state": State({"x": x * 2}, decay(0.5)), "loss": x.sum()}


def pick(x, mode):
    return State(x + 1, decay(0.5 if mode == "slow" else 2.0))


def template(n, mode):
    with LOG.open("a") as file:
        file.write(f"{n} {mode}\\n")
    return [jnp.ones(n), State(0, decay(0.5 if mode == "slow" else 2.0))]


def other():
    return State(0, decay(0.25))


def several():
    return [State(0, None), State(0, "a rule"), State(0, decay(0.75))]


def leaf(x):
    return {"x": x, "rule": decay(0.5)}


def plain(x):
    return x


def none(x):
    return State(x, None)


def fails():
    raise ValueError("no template")


OPAQUE = State(0, (x for x in [1]))
"""

GOOD = """
version: 1
package: proj
targets: [cpu, portable]
defaults: {verify: {golden: never}}
functions:
  begin: {call: "proj.m:begin", args: [x: "f32[3]"], returns: {like: "proj.m:TEMPLATE"}}
  pick:
    call: proj.m:pick
    args: [x: "f32[n]"]
    dims: {n: [2, 3]}
    static: {mode: [slow, fast]}
    returns: {like: "proj.m:template", dims: [n], static: [mode]}
  none: {call: "proj.m:none", args: [x: "f32[3]"], returns: {like: "proj.m:TEMPLATE"}}
"""

BAD = """
version: 1
package: proj
functions:
  other: {call: "proj.m:begin", args: [x: "f32[3]"], returns: {like: "proj.m:other"}}
  several: {call: "proj.m:begin", args: [x: "f32[3]"], returns: {like: "proj.m:several"}}
  leaf:
    call: proj.m:leaf
    args: [x: "f32[3]"]
    wrap: eqx.filter_jit
    returns: {like: "proj.m:other"}
  absent: {call: "proj.m:begin", args: [x: "f32[3]"], returns: {like: "proj.m:plain"}}
  untyped: {call: "proj.m:begin", args: [x: "f32[3]"], returns: {like: "proj.m:LOG"}}
  fails: {call: "proj.m:begin", args: [x: "f32[3]"], returns: {like: "proj.m:fails"}}
  unknown: {call: "proj.m:begin", args: [x: "f32[3]"], returns: {like: "proj.m:TEMPLTE"}}
  opaque: {call: "proj.m:begin", args: [x: "f32[3]"], returns: {like: "proj.m:OPAQUE"}}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_project(tmp_path_factory.mktemp("returned"), GOOD, m=SOURCE)
    package = build(root)
    (root / "notes").write_text("\n".join(package.notes), encoding="utf-8")
    (root / "proj" / "log").unlink()
    return root


def record(root: Path, name: str) -> Record:
    index = open_index(DirectorySource(root / "proj" / "_aot"))
    return index.records(name)[0]


def test_the_record_names_it_if_the_result_needs_it(root: Path) -> None:
    returned = record(root, "begin").calling.returned
    assert returned is not None
    assert (returned.like, returned.values) == ("proj.m:TEMPLATE", ())
    found: set[Any] = set()
    for name in ("pick",):
        index = open_index(DirectorySource(root / "proj" / "_aot"))
        for each in index.records(name):
            assert isinstance(each.calling.returned, Returned)
            found.add(each.calling.returned.values)
    assert found == {(("n", n), ("mode", mode)) for n in (2, 3) for mode in ("slow", "fast")}
    assert record(root, "none").calling.returned is None


def test_arrays_of_jax_in_it_are_a_note(root: Path) -> None:
    notes = (root / "notes").read_text(encoding="utf-8")
    assert (
        "functions.pick.returns: like: proj.m:template holds arrays that jax computes, which may "
        "compile at the first call in a process; make them with numpy"
    ) in notes
    assert "functions.begin.returns" not in notes


def test_results_are_rebuilt_with_it(root: Path) -> None:
    code = """
import json, numpy as np, aotbuild
from aotbuild.errors import AotbuildError
lib = aotbuild.load("proj")
from proj import m
x = np.arange(3, dtype=np.float32)
first = lib.begin(x)["state"]
second = [lib.pick(x, mode=mode) for mode in ("slow", "fast", "slow")]
lib.pick(np.asarray(x), mode="fast")
print(json.dumps([
    type(first) is m.State, first.rule is m.TEMPLATE.rule, first.x["x"].tolist(),
    [state.rule(8.0) for state in second], m.LOG.read_text().splitlines(),
]))
"""
    assert forked(code, path=root) == [
        True,
        True,
        [0.0, 2.0, 4.0],
        [4.0, 16.0, 4.0],
        ["3 slow", "3 fast"],
    ]


CHANGED = """
import json, numpy as np, aotbuild
from aotbuild.errors import AotbuildError
lib = aotbuild.load("proj")
try:
    lib.begin(np.zeros(3, np.float32))
except AotbuildError as err:
    print(json.dumps(str(err)))
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("TEMPLATE = State(None, decay(0.5))", "TEMPLATE = State(None, decay(0.6))", "PyTreeDef("),
        ("TEMPLATE = ", "TEMPLATES = ", "AttributeError: module 'proj.m' has no attribute"),
        ("TEMPLATE = State(None", "TEMPLATE = lambda: 1 / 0; (None", "ZeroDivisionError: division"),
    ],
)
def test_another_tree_is_refused(
    root: Path, tmp_path: Path, old: str, new: str, found: str
) -> None:
    changed = Path(shutil.copytree(root, tmp_path / "changed"))
    (changed / "proj" / "m.py").write_text(SOURCE.replace(old, new, 1), encoding="utf-8")
    text = forked(CHANGED, path=changed)
    assert text.startswith(
        "proj.m:TEMPLATE, which the manifest names under returns:, has static data of results\n"
        "  expected the tree that it was when the package was built\n"
        f"  found    {found}"
    )
    assert text.endswith(
        "\nInstall the package that defines it, in the version of the build, or build again."
    )


def test_inspect_shows_it(root: Path) -> None:
    result = invoke("inspect", str(root / "proj" / "_aot"))
    lines = result.stdout.splitlines()
    assert "begin = proj.m:begin(x)  returns nodes like proj.m:TEMPLATE" in lines
    assert "none = proj.m:none(x)" in lines


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = write_project(tmp_path_factory.mktemp("bad"), BAD, m=SOURCE)
    return failed_units(root)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("other", [
            "proj.m:begin returns a proj.m.State at result['state']: its static data holds ",
            "returns: like: proj.m:other has a proj.m.State with other static data\n",
            "  there     proj.m.decay.<locals>.<lambda>: .rate 0.25\n",
            "  returned  proj.m.decay.<locals>.<lambda>: .rate 0.5\n",
            "or name a tree that has the same static data under returns: {like: module:attr}.",
        ]),
        ("several", ["  there     proj.m.decay.<locals>.<lambda>: .rate 0.75\n"]),
        ("leaf", [
            "proj.m:leaf returns a static leaf at result['rule']: its static data holds ",
            "returns: like: proj.m:other gives the static data of nodes only\n",
        ]),
        ("absent", ["functions.absent.returns: like: proj.m:plain raised", "missing 1 required"]),
        ("untyped", ["returns: like: proj.m:LOG has no proj.m.State\n"]),
        ("fails", ["like: proj.m:fails raised; it was called with ()", "ValueError: no template"]),
        ("unknown", [
            "functions.unknown.returns: proj.m:TEMPLTE: proj.m has no 'TEMPLTE'",
            "(did you mean 'TEMPLATE'?)",
        ]),
        ("opaque", ["functions.opaque.returns: like: proj.m:OPAQUE has a proj.m.State, whose"]),
    ],
)  # fmt: skip
def test_refused(failures: dict[str, str], name: str, parts: list[str]) -> None:
    for part in parts:
        assert part in failures[name], failures[name]


EMPTY = """
import jax


class Box:
    def __init__(self, x):
        self.x = x


jax.tree_util.register_pytree_node(Box, lambda box: ((), None), lambda *_: Box(None))


def boxed(x):
    return Box(x * 2)


def prints(x):
    jax.debug.print("{x}", x=x)
"""


def test_a_result_without_arrays_is_noted(tmp_path: Path) -> None:
    manifest = """
version: 1
package: proj
functions:
  boxed: {call: "proj.m:boxed", args: [x: "f32[]"]}
  prints: {call: "proj.m:prints", args: [x: "f32[]"]}
"""
    package = build(write_project(tmp_path, manifest, m=EMPTY))
    assert [note for note in package.notes if "no arrays" in note] == [
        (
            "boxed(): proj.m:boxed returns no arrays, so a call computes nothing; if its result "
            "should have some, their type registers none with jax"
        )
    ]
