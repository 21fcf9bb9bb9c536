"""`{file: …, name: …}`: trees that a recording knows, and what is wrong with a file of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aotbuild.errors import ManifestError
from aotbuild.format import tree_file
from aotbuild.format.tree_file import DescribedTree, names_in, parse_trees, render_trees
from aotbuild.manifest import FileSpec, Function, LeafSpec, Manifest, bind_values, load_manifest

STATE = ["node", "flax.core:State", {"tuple": [1, {"name": "p.tx:TX.adam"}]}, "*", ["list", "*"]]
TREES = {"state": DescribedTree(STATE, ("f32[batch,4]", "~i32[]"))}
TEXT = """\
version: 1
package: p
functions:
  f:
    call: m:f
    args: [x: SPEC, other: "f32[batch]"]
    dims: {batch: [1, 8]}
"""
SPEC = "{file: aot.trees.json, name: state}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "aot.trees.json").write_bytes(render_trees(TREES))
    return tmp_path


def read(folder: Path, spec: str = SPEC, text: str = TEXT) -> Manifest:
    (folder / "aot.yaml").write_text(text.replace("SPEC", spec), encoding="utf-8")
    return load_manifest(folder / "aot.yaml")


def refused(folder: Path, spec: str = SPEC, data: Any = None, text: str = TEXT) -> list[str]:
    """Return the problems, without the folder; `data` is what the file has."""
    if data is not None:
        body = data if isinstance(data, str) else json.dumps(data, indent=1)
        (folder / "aot.trees.json").write_text(body, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        read(folder, spec, text)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


def entry(tree: Any, *leaves: Any) -> dict[str, Any]:
    return {"version": 1, "trees": {"state": {"tree": tree, "leaves": [*leaves]}}}


class TestReading:
    def test_dims_and_names(self, folder: Path) -> None:
        function = read(folder).functions["f"]
        spec = function.positional["x"]
        assert isinstance(spec, FileSpec)
        assert json.loads(spec.tree) == STATE
        leaves = LeafSpec(("batch", 4), "float32"), LeafSpec((), "int32", weak_type=True)
        assert spec.leaves == leaves
        bound = bind_values(spec, {"batch": 8})
        assert isinstance(bound, FileSpec)
        assert bound.leaves[0].shape == (8, 4)
        assert function.references == ("m:f", "flax.core:State", "p.tx:TX")

    def test_under_trees(self, folder: Path) -> None:
        text = f"{TEXT}trees: {{shared: {SPEC}}}\n"
        function = read(folder, "{tree: shared}", text).functions["f"]
        assert isinstance(function.positional["x"], FileSpec)

    def test_a_job_takes_it_along(self, folder: Path) -> None:
        function = read(folder).functions["f"]
        assert Function.model_validate_json(function.model_dump_json()) == function

    def test_in_a_folder_below(self, folder: Path) -> None:
        (folder / "trees").mkdir()
        (folder / "aot.trees.json").rename(folder / "trees" / "t.json")
        read(folder, "{file: trees/t.json, name: state}")

    def test_a_dict_with_such_a_key(self, folder: Path) -> None:
        read(folder, "{dict: {file: 'f32[2]', name: 'f32[3]'}}")


REMEDY = "record it again, or name a function that makes it with like:"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("{file: aot.trees.json, name: stat}", "name: no tree 'stat' in 'aot.trees.json' (did"),
        ("{file: none.json, name: s}", "file: 'none.json' cannot be read, looked for beside the"),
        ("{file: ../x.json, name: s}", "file: expected a path below the manifest's folder, found"),
        ("{file: /etc/passwd, name: s}", "file: expected a path below the manifest's folder"),
        ("{file: link.json, name: s}", "file: expected a path below the manifest's folder"),
        ('{file: "a\\0b", name: s}', "file: 'a\\x00b' cannot be read"),
        ("{file: '.', name: s}", "file: '.' cannot be read, looked for beside the manifest: Is a"),
        ("{file: bytes.json, name: s}", "file: 'bytes.json' cannot be read, looked for beside the"),
        ("{file: 3, name: s}", "expected the path of a file of trees under 'file', found the num"),
        ("{file: a.json}", "expected the name of a tree in the file under 'name', found nothing"),
        ("{file: a.json, nam: s}", "unknown key 'nam' beside 'file' (did you mean 'name'?)"),
    ],
)
def test_what_is_wrong_with_a_spec(folder: Path, spec: str, problem: str) -> None:
    (folder / "link.json").symlink_to("/etc/hostname")
    (folder / "bytes.json").write_bytes(b"\xff")
    found = refused(folder, spec)
    assert len(found) == 1
    assert found[0].startswith("aot.yaml:6:")
    assert problem in found[0]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("", "1:1: not JSON: Expecting value"),
        ('{"version": 1,\n "trees" 3}', "2:10: not JSON: Expecting ':' delimiter"),
        (
            '{"version": 1, "version": 1}',
            "1:1: not JSON of such a file: the key 'version' is there",
        ),
        ('{"version": NaN}', "1:1: not JSON of such a file: NaN is no JSON"),
        ('{"version": "\\ud800"}', "1:1: not JSON of such a file: "),
        ("[" * 2000 + "]" * 2000, "1:1: not JSON of such a file: "),
        ({"version": 2, "trees": {}}, "2:13: version: expected version 1, found '2'; upgrade aot"),
        ({"trees": {}}, "1:1: version: expected version 1, found 'null'"),
        ({"version": 1}, "1:1: trees: expected an object of trees by name, found 'null'"),
        ([], "1:1: expected an object with version and trees, found '[]'"),
        ({"version": 1, "trees": {"s": 1}}, "4:8: trees.s: expected an object with tree and leav"),
        (entry("*", "f32[2"), "7:5: trees.state.leaves.0: 'f32[2' is not an aval"),
        (entry("*", 3), "7:5: trees.state.leaves.0: expected an aval such as 'f32[8,128]', found"),
        (entry("*"), "6:14: trees.state.leaves: expected 1 avals, found 0"),
        (entry(["lis", "*"], "f32[]"), 'tree: expected "*" or a node such as ["tuple", "*"], '),
        (entry(["input", [0]]), "5:12: trees.state.tree: expected"),
        (entry(["dict", ["a"], "*", "*"]), "5:12: trees.state.tree: a dict of 2 children has the"),
        (entry(["node", "m"]), "5:12: trees.state.tree: a node has 2 items before its children"),
        (entry(["node", "m", 1]), "expected the name of a type, module:name, found '\"m\"'"),
        (entry(["node", "m:T", {"x": 1}]), "8:5: trees.state.tree.2: nothing can be made of"),
        (entry(["node", "m:T", {"fingerprint": ["t", "d"]}]), REMEDY),
        (entry(["node", "m:T", {"made": ["3.11", 1]}]), "a version of Python, an identity and"),
        (entry(["node", "m:T", {"name": "x"}]), "expected module:name, found '\"x\"'"),
        (entry(["list", ["tuple", 4]]), 'trees.state.tree.1.1: expected "*" or a node such as'),
        (entry(["none", "*"]), "5:12: trees.state.tree: a none has 0 items before its children"),
    ],
)
def test_what_is_wrong_in_a_file(folder: Path, data: Any, problem: str) -> None:
    found = refused(folder, data=data)
    assert len(found) == 1
    assert found[0].startswith("aot.trees.json:")
    assert problem in found[0]


def test_positions(folder: Path) -> None:
    tree = ["list", "*", ["node", "m:T", {"set": []}], ["x"]]
    found = refused(folder, data=entry(tree, "f", "g"))
    lines = (folder / "aot.trees.json").read_text(encoding="utf-8").splitlines()
    places = [problem.split(":")[1:3] for problem in found]
    assert [lines[int(line) - 1][int(column) - 1 :] for line, column in places] == [
        "{",
        "[",
        '"f",',
        '"g"',
    ]


def test_all_problems_at_once(folder: Path) -> None:
    data = {"version": 1, "trees": {n: {"tree": 1, "leaves": []} for n in ("state", "b")}}
    assert len(refused(folder, "[{file: aot.trees.json, name: state}, {shape: 3}]", data)) == 3


def test_an_unknown_dim(folder: Path) -> None:
    found = refused(folder, data=entry("*", "f32[bach,4]"))
    what = "unknown dim 'bach' in aot.trees.json (did you mean 'batch'?)"
    assert found == [f"aot.yaml:6:15: functions.f.args.x: {what}"]


def test_a_large_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aotbuild.manifest.tree_files.MOST_BYTES", 20)
    assert "is larger than 0 MiB; use like: instead" in refused(folder)[0]
    monkeypatch.undo()
    monkeypatch.setattr(tree_file, "MOST_LEAVES", 1)
    assert "expected a list of at most 1 avals" in refused(folder)[0]


def test_padding_looks_at_its_leaves(folder: Path) -> None:
    (folder / "aot.trees.json").write_bytes(
        render_trees({"state": DescribedTree("*", ("i8[batch]",))})
    )
    found = refused(folder, text=f"{TEXT}    pad: {{batch: 0.5}}\n")
    assert "leaf 0 of x has this dim and is int8: expected a whole number" in found[0]


class TestText:
    def test_round_trip_in_any_order_and_layout(self) -> None:
        trees = {
            "b": TREES["state"],
            "a": DescribedTree(["dict", [1, "ä"], "*", ["none"]], ("f32[]",)),
        }
        text = render_trees(trees).decode()
        assert parse_trees(text) == (trees, [])
        assert render_trees(parse_trees(json.dumps(json.loads(text)))[0]).decode() == text
        assert text.index('"a"') < text.index('"b"')

    def test_a_part_has_one_line_if_it_fits(self) -> None:
        wide = DescribedTree(["tuple", *["*"] * 40, ["list", "*"]], ("f32[8,128]",) * 41)
        lines = render_trees({"wide": wide}).decode().splitlines()
        assert max(map(len, lines)) <= 100
        assert '    ["list", "*"]' in lines

    def test_names_are_those_of_modules(self) -> None:
        tree = [
            "dict",
            ["node", "x"],
            ["node", "a:T.U", {"treedef": ["namedtuple", "b:P", "*"]}],
            "*",
        ]
        made = {
            "made": ["3.11", {"name": "no:no"}, {"function": ["c:f", "f.g", 0, None, None, []]}]
        }
        assert names_in(tree) == ("a:T", "b:P")
        assert names_in(["node", made, {"enum": ["d:E", "ONE"]}]) == ("c:f", "d:E")
