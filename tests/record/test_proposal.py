"""What a manifest gets for observed calls: all of them, and nothing that was not called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.call_logs import Logged

from aotbuild.errors import ProjectError
from aotbuild.manifest import Function, load_manifest
from aotbuild.manifest.specs import RESERVED
from aotbuild.record import specs
from aotbuild.record.call_log import ObservedFunction
from aotbuild.record.proposal import propose


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aot.yaml"


Written = Callable[[Logged], dict[str, Function]]


@pytest.fixture
def written(path: Path) -> Written:
    """Write the manifest of a log, and return its functions."""

    def write(logged: Logged) -> dict[str, Function]:
        for file, text in propose(logged.log, path).files.items():
            file.write_text(text)
        functions = dict(load_manifest(path).functions)
        found = [s for each in functions.values() for s in each.each_signature]
        assert sum(each.count for each in found) == len(logged.log.calls)
        return functions

    return write


def body(path: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["functions"][name]
    return found


class TestANewManifest:
    def test_sizes_and_static_values_that_were_combined(self, written: Written, path: Path) -> None:
        logged = Logged()
        for batch in (1, 8):
            for act in ("tanh", "relu"):
                logged.call("pkg:f", static={"act": act}, w="f32[4,2]", x=f"f32[{batch},4]")
        function = written(logged)["f"]
        assert body(path, "f") == {
            "call": "pkg:f",
            "args": [{"w": "f32[4,2]"}, {"x": "f32[batch,4]"}],
            "dims": {"batch": [1, 8]},
            "static": {"act": ["tanh", "relu"]},
        }
        assert function.count == 4

    def test_what_was_not_combined_is_several_signatures(
        self, written: Written, path: Path
    ) -> None:
        logged = Logged().call("pkg:f", static={"k": 1}, x="f32[1,4]")
        logged.call("pkg:f", static={"k": 1}, x="f32[8,4]").call(
            "pkg:f", static={"k": 2}, x="f32[8,4]"
        )
        function = written(logged)["f"]
        assert [each.count for each in function.signatures] == [2, 1]

    def test_other_trees_are_signatures_of_the_same_function(
        self, written: Written, path: Path
    ) -> None:
        logged = Logged().call("pkg:f", x="~i32[]").call("pkg:f", x="i32[]")
        logged.call(
            "pkg:f", x={"dict": {"a": "f32[2]", "b": None, "shape": [{"tuple": ["f32[]"]}]}}
        )
        assert len(written(logged)["f"].signatures) == 3

    def test_rows_of_dims(self, written: Written, path: Path) -> None:
        logged = Logged().call("pkg:f", x="f32[1,64]").call("pkg:f", x="f32[8,128]")
        logged.call("pkg:f", x="f32[8,64]")
        written(logged)
        assert body(path, "f")["dims"] == [
            {"batch": 1, "x_1": 64},
            {"batch": 8, "x_1": 64},
            {"batch": 8, "x_1": 128},
        ]

    def test_many_sizes_are_noted(self, written: Written, path: Path) -> None:
        logged = Logged()
        for size in range(1, 21):
            logged.call("pkg:f", x=f"f32[{size},4]")
        assert written(logged)["f"].count == 20
        assert "# batch: 20 sizes from 1 to 20; fewer compile with `pad:`" in path.read_text()

    def test_options(self, written: Written, path: Path) -> None:
        function = ObservedFunction(
            "pkg:f", positional=("x",), donate=("x",), options={"keep_unused": True}
        )
        options = {"config": {"jax_enable_x64": True}, "env": {"EQX_ON_ERROR": "nan"}}
        written(Logged().call(function, x="f64[4]", options=options))
        assert body(path, "f") == {
            "call": "pkg:f",
            "args": [{"x": "f64[4]"}],
            "donate": ["x"],
            "keep_unused": True,
            **options,
        }

    def test_other_settings_are_another_function(self, written: Written) -> None:
        logged = Logged().call("pkg:f", x="f32[4]")
        logged.call("pkg:f", x="f32[4]", options={"config": {"jax_enable_x64": True}})
        assert len(written(logged)) == 2

    def test_a_tree_that_nothing_names_is_a_todo(self, path: Path) -> None:
        logged = Logged().call("pkg:f", x={"tuple": ["TODO [0]: a pkg.State", "f32[2]"]})
        proposal = propose(logged.log, path)
        assert '- x: {tuple: [TODO, "f32[2]"]}' in proposal.text
        assert "# TODO: [0]: a pkg.State; name a tree like it" in proposal.text

    def test_what_is_left_out(self, path: Path) -> None:
        logged = Logged().call("pkg:f", x="f32[4]")
        logged.call(ObservedFunction("pkg:<lambda>", "it is a lambda", "a.py", 3), x="f32[4]")
        installed = ObservedFunction("lib:g", file="/v/site-packages/lib.py", positional=("x",))
        logged.call(installed, x="f32[4]")
        proposal = propose(logged.log, path)
        assert [*proposal.entries] == ["f"]
        assert (
            "left out: a.py:3: pkg:<lambda>: 1 call, 1.0 s of first calls" in [*proposal.lines][1]
        )
        reasons = [each.reason for each in proposal.left_out]
        assert reasons[1].startswith("it is in lib: call what leads to it")

    def test_nothing_for_a_manifest(self, path: Path) -> None:
        logged = Logged().call(ObservedFunction("pkg:<lambda>", "it is a lambda"), x="f32[4]")
        with pytest.raises(ProjectError, match="no manifest can have what was recorded"):
            propose(logged.log, path)


OLD = """\
version: 1
package: pkg
functions:
  score:
    call: pkg:f
    args: [{x: "f32[4]"}]
    dims: {batch: TODO}
"""


def test_an_existing_manifest_stays_as_it_is(path: Path) -> None:
    path.write_text(OLD)
    logged = Logged().call("pkg:f", w="f32[4,2]", x="f32[3,4]").call("pkg:score", x="f32[4]")
    proposal = propose(logged.log, path)
    assert (proposal.files, [*proposal.entries]) == ({}, ["score", "pkg_score"])
    assert "aot.yaml stays as it is. Entries for what was called:" in [*proposal.lines][-1]
    assert yaml.safe_load(proposal.text)["score"] == {
        "call": "pkg:f",
        "args": [{"w": "f32[4,2]"}, {"x": "f32[3,4]"}],
    }


def test_the_words_that_are_no_keys_of_a_dict() -> None:
    assert {*specs.RESERVED} >= {*RESERVED}
