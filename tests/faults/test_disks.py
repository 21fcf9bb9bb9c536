"""Disks without room, packages replaced under a running process: the words name file and remedy."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.ended import assert_refused, files_in
from support.cli import invoke
from support.full_disk import full_disk
from support.packages import build, write
from support.wheel_files import everywhere, put_wheel

import aotbuild
from aotbuild.errors import DamagedBlob
from aotbuild.store.build_store import open_store
from aotbuild.store.entry import Entry
from aotbuild.store.keys import key_of

X = np.arange(4, dtype=np.float32)
FULL = "File too large"  # of what a limit says; a full disk says "No space left on device"


def double(x: Any) -> Any:
    return x * 2


@pytest.fixture(scope="module")
def built() -> list[Any]:
    return [build(name, double, {"x": X}) for name in ("f", "g")]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, built: list[Any]) -> Path:
    """A folder with a wheel, a package, and a manifest."""
    place = tmp_path_factory.mktemp("honest")
    put_wheel(place / "demo-1.0-py3-none-linux_x86_64.whl", everywhere(built))
    write(place / "package", built)
    (place / "p").mkdir()
    (place / "p" / "__init__.py").write_text("import jax\n\n\n@jax.jit\ndef f(x):\n    return x\n")
    (place / "pyproject.toml").write_text(
        '[project]\nname = "p"\nversion = "1"\n[build-system]\nrequires = ["hatchling"]\n'
        'build-backend = "hatchling.build"\n'
    )
    return place


# --- commands that write -------------------------------------------------------------------------

WHEEL = "demo-1.0-py3-none-linux_x86_64.whl"
# A command's words, and the file or folder that its error names; `@` stands for the folder.
COMMANDS: dict[str, tuple[list[str], str]] = {
    "inspect": (["inspect", f"@/{WHEEL}", "--html", "@/page.html"], "page.html"),
    "split": (["split", f"@/{WHEEL}", "--out", "@/parts"], "parts/"),
    "init": (["init", "p:f", "--root", "@"], "aot.yaml"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_named(honest: Path, tmp_path: Path, name: str) -> None:
    """The error says which file, and there is neither a part of it nor another temporary one."""
    words, file = COMMANDS[name]
    place = shutil.copytree(honest, tmp_path / "place")
    before = files_in(place)
    with full_disk(100):
        ended = invoke(*(word.replace("@", str(place)) for word in words))
    assert_refused(ended, f"{place}/{file}", FULL, codes=[6])
    left = {path for path in files_in(place) - before if (place / path).is_file()}
    assert left == set()
    assert zipfile.ZipFile(place / WHEEL).testzip() is None


# --- what writes below them ----------------------------------------------------------------------


KEY = key_of({"a": 1})
LARGE = Entry({}, bytes(100_000))


@pytest.mark.parametrize("room", [0, 50_000])
def test_a_full_disk_of_the_store(
    tmp_path: Path, room: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store({"AOTBUILD_STORE": str(tmp_path)}).store
    with full_disk(room):
        store.put(KEY, LARGE)
        assert store.get(KEY) is None
    assert caplog.messages == [f"{tmp_path}: nothing new is kept: {FULL}"]
    store.put(KEY, LARGE)
    assert store.get(KEY) == LARGE
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [KEY]


# --- remedies ------------------------------------------------------------------------------------


def installed_again(folder: Path, other: list[Any]) -> None:
    shutil.rmtree(folder)
    write(folder.parent, other)


def in_place(folder: Path, other: list[Any]) -> None:
    """As installers that write over files."""
    for path in (folder / "blobs").iterdir():
        path.unlink()
    write(folder.parent, other)


def removed(folder: Path, _: list[Any]) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
@pytest.mark.parametrize("change", [installed_again, in_place, removed])
def test_a_package_that_was_replaced_under_a_process(
    tmp_path: Path, built: list[Any], change: Callable[[Path, list[Any]], None], arrays: Any
) -> None:
    folder = write(tmp_path, built)
    library = aotbuild.load(folder, arrays=arrays)
    np.testing.assert_array_equal(library.f(X), X * 2)
    change(folder, [build("g", lambda x: x * 3, {"x": X})])
    with pytest.raises(DamagedBlob, match="no such file") as caught:
        library.g(X)
    assert "restart the processes" in str(caught.value)
    np.testing.assert_array_equal(library.f(X), X * 2)
