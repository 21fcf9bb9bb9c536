"""Where the package of a manifest is: the root, or src, or what is left of one that moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.build.project import find_sources
from aotbuild.errors import PlanError


def place(root: Path, *files: str) -> Path:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


@pytest.mark.parametrize(
    "left", ["demo/__pycache__/model.cpython-311.pyc", "demo/data.csv", "demo/_aot/x.py"]
)
def test_a_folder_without_modules_hides_none(tmp_path: Path, left: str) -> None:
    root = place(tmp_path, left, "src/demo/model.py")
    assert find_sources(root, "demo").import_root == root / "src"


def test_modules_may_be_further_below(tmp_path: Path) -> None:
    root = place(tmp_path, "demo/parts/model.py", "src/demo/data.csv")
    assert find_sources(root, "demo").import_root == root


def test_what_the_hook_names_comes_first(tmp_path: Path) -> None:
    root = place(tmp_path, "lib/demo/data.csv", "demo/model.py")
    assert find_sources(root, "demo", ("lib",)).import_root == root / "lib"


def test_a_package_below_another(tmp_path: Path) -> None:
    root = place(tmp_path, "src/a/b/model.py")
    nested = find_sources(root, "a.b")
    assert (nested.import_root, nested.artifacts) == (root / "src", "a/b/_aot")


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        find_sources(tmp_path, "p")
    assert f"\n  searched {tmp_path / 'p'}\n  searched {tmp_path / 'src' / 'p'}\n" in str(
        caught.value
    )


def test_a_module_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="package 'p' is a module; _aot/ needs a package"):
        find_sources(place(tmp_path, "p.py"), "p")
