"""`trees:`: specs that several functions share, and what is wrong with them, with positions."""

from __future__ import annotations

import pytest

from aotbuild.errors import ManifestError
from aotbuild.manifest import DictSpec, LeafSpec, LikeSpec, ListSpec, Manifest, parse_manifest

TEXT = """\
version: 1
package: p
trees:
  {trees}
functions:
  f:
    call: m:f
    args: [x: {spec}, other: "f32[batch]"]
    dims: {{batch: [1, 8]}}
    static: {{mode: [fast, exact]}}
  g:
    call: m:g
    args: [x: {spec}, other: "f32[batch, k]"]
    dims: {{batch: [2], k: 3}}
    static: {{mode: 1}}
"""


def read(trees: str, spec: str = "{tree: params}") -> Manifest:
    return parse_manifest(TEXT.format(trees=trees, spec=spec))


def refused(trees: str, spec: str = "{tree: params}") -> list[str]:
    with pytest.raises(ManifestError) as caught:
        read(trees, spec)
    return [f"{p.line}:{p.column}: {p.path}: {p.message}" for p in caught.value.problems]


class TestUse:
    def test_a_tree_stands_for_its_spec_in_each_function(self) -> None:
        found = read("params: {w: 'f32[batch,4]', step: {like: 'm:count', static: [mode]}}")
        expected = DictSpec(
            (
                ("w", LeafSpec(("batch", 4), "float32")),
                ("step", LikeSpec("m:count", (), ("mode",))),
            )
        )
        assert found.functions["f"].positional["x"] == expected
        assert found.functions["g"].positional["x"] == expected
        assert found.trees == {"params": expected}

    def test_inside_others(self) -> None:
        found = read("{params: 'f32[2]', both: [{tree: params}, {tree: params}]}", "{tree: both}")
        leaf = LeafSpec((2,), "float32")
        assert found.functions["f"].positional["x"] == ListSpec((leaf, leaf))

    def test_a_dict_with_such_a_key(self) -> None:
        found = read("params: 'f32[2]'", "[{tree: params}, {dict: {tree: 'f32[3]'}}]")
        leaves = LeafSpec((2,), "float32"), DictSpec((("tree", LeafSpec((3,), "float32")),))
        assert found.functions["f"].positional["x"] == ListSpec(leaves)

    def test_its_dims_count_as_used(self) -> None:
        text = TEXT.format(trees="params: 'f32[k]'", spec="{tree: params}")
        assert parse_manifest(text.replace("[batch, k]", "[batch]").replace("8]}", "8], k: 1}"))


class TestRefused:
    @pytest.mark.parametrize(
        ("trees", "spec", "problems"),
        [
            ("params: 'f32[2]'", "{tree: parms}", [
                "4:3: trees: the tree 'params' is used in no spec of args or kwargs; remove it",
                "8:22: functions.f.args.x.tree: unknown tree 'parms' (did you mean 'params'?)",
                "13:22: functions.g.args.x.tree: unknown tree 'parms' (did you mean 'params'?)",
            ]),
            ("{}", "{tree: 'f32[2]'}", [
                ("8:22: functions.f.args.x.tree: unknown tree 'f32[2]'; declare it under trees:; "
                 "a dict pytree with 'tree' as key is written {dict: {…}}"),
                ("13:22: functions.g.args.x.tree: unknown tree 'f32[2]'; declare it under trees:; "
                 "a dict pytree with 'tree' as key is written {dict: {…}}"),
            ]),
            ("params: 'f32[2]'", "[{tree: params}, {tree: [1]}]", [
                ("8:39: functions.f.args.x.1.tree: expected the name of a tree under trees:, found "
                 "a list; a dict pytree with 'tree' as key is written {dict: {…}}"),
                ("13:39: functions.g.args.x.1.tree: expected the name of a tree under trees:, "
                 "found a list; a dict pytree with 'tree' as key is written {dict: {…}}"),
            ]),
            ("{params: [{tree: b}], b: {tree: params}}", "{tree: params}", [
                "4:35: trees.b.tree: the tree 'params' is part of itself: params → b → params",
            ]),
            ("{params: 'f32[2]', spare: 'f32[3]'}", "{tree: params}", [
                "4:22: trees: the tree 'spare' is used in no spec of args or kwargs; remove it",
            ]),
            ("params: {w: 'f32[2', v: 3}", "{tree: params}", [
                ("4:15: trees.params.w: 'f32[2' is not an aval; expected dtype[dims], for example "
                 "f32[8,128] or i32[batch]"),
                ("4:27: trees.params.v: expected a spec such as 'f32[8,128]', found the number 3"),
            ]),
            ("params: [{like: 'm:f', dims: [k], static: [mod]}]", "{tree: params}", [
                ("8:22: functions.f.args.x.tree: unknown dim 'k' in trees.params; known: batch"),
                ("8:22: functions.f.args.x.tree: unknown static argument 'mod' in trees.params "
                 "(did you mean 'mode'?)"),
                ("13:22: functions.g.args.x.tree: unknown static argument 'mod' in trees.params "
                 "(did you mean 'mode'?)"),
            ]),
            ("- 'f32[2]'", "{tree: params}", ["4:3: trees: expected a map, found a list"]),
            ("1: 'f32[2]'", "{tree: params}", [
                "4:3: trees: expected a name, found '1'; put it in quotes if it is one: \"1\"",
            ]),
        ],
    )  # fmt: skip
    def test_refused(self, trees: str, spec: str, problems: list[str]) -> None:
        assert refused(trees, spec) == problems

    def test_a_name_that_is_a_dim_and_a_static_argument(self) -> None:
        text = TEXT.format(trees="{}", spec="{like: 'm:f', dims: [batch], static: [batch]}")
        with pytest.raises(ManifestError) as caught:
            parse_manifest(text.replace("mode:", "batch:"))
        assert caught.value.problems[0].message == (
            "'batch' is a dim and a static argument; the function gets it by name"
        )
