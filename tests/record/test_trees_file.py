"""Trees that are added to a file beside the manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.errors import ManifestError
from aotbuild.format.aval import Aval
from aotbuild.format.tree_file import DescribedTree
from aotbuild.record.recording import RecordedArgument
from aotbuild.record.trees_file import add_trees, read_trees, tree_entry

LEAVES = Aval((8, 128), "float32"), Aval((), "int32", weak_type=True), Aval((8,), "key<fry>")
ARGUMENT = RecordedArgument("state", ["tuple", "*", "*", "*"], LEAVES)


def test_dims_get_their_names() -> None:
    entry = tree_entry(ARGUMENT, {(0, 0): "batch", (2, 0): "batch"})
    assert entry.leaves == ("f32[batch,128]", "~i32[]", "key<fry>[batch]")
    assert tree_entry(ARGUMENT).leaves == ("f32[8,128]", "~i32[]", "key<fry>[8]")


def test_the_others_stay(tmp_path: Path) -> None:
    file, entry = tmp_path / "aot.trees.json", tree_entry(ARGUMENT)
    other = DescribedTree("*", ("f32[]",))
    assert read_trees(file) == {}
    assert add_trees(file, {"state": entry, "other": entry})
    assert add_trees(file, {"other": other})
    assert read_trees(file) == {"state": entry, "other": other}
    before = file.stat().st_mtime_ns
    assert not add_trees(file, {"other": other})
    assert file.stat().st_mtime_ns == before
    assert [path.name for path in tmp_path.iterdir()] == ["aot.trees.json"]


def test_a_file_with_problems_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "aot.trees.json"
    for data in (b'{"version": 2, "trees": {}}', b"\xff"):
        file.write_bytes(data)
        with pytest.raises(ManifestError):
            add_trees(file, {"state": tree_entry(ARGUMENT)})
        assert file.read_bytes() == data
