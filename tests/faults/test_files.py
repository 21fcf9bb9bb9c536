"""Files that are pipes, devices, sockets or folders: refused, and nobody waits for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.ended import assert_refused
from faults.readers import OF_FOLDERS, OF_WHEELS, WHEEL, no_hang
from faults.special_files import fifo, special, zeros
from support.cli import invoke

import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.format.files import open_regular, open_zip, read_regular

MANIFEST = (
    "version: 1\npackage: demo\nfunctions:\n  f:\n    call: demo:f\n    args: [{x: 'f32[4]'}]\n"
)


waiting = pytest.mark.parametrize("make", [fifo, zeros], ids=lambda make: make.__name__)
OF_MANIFESTS: tuple[tuple[str, ...], ...] = (
    ("plan",),
    ("lock",),
    ("lock", "--check"),
    ("build",),
    ("init",),
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@waiting
@pytest.mark.parametrize("words", OF_WHEELS, ids=" ".join)
def test_in_the_place_of_a_wheel(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / WHEEL)
    with no_hang():
        ended = invoke(*(word.format(WHEEL) for word in words))
    # `split` says that it is no file, as of a path that is not there.
    assert_refused(ended)
    assert "unrecognized" not in ended.output
    assert "required" not in ended.output


@waiting
@pytest.mark.parametrize("words", OF_MANIFESTS, ids=" ".join)
def test_in_the_place_of_a_manifest(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/__init__.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "calls.jsonl").write_text('{"kind":"call log","version":1}\n')
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'demo'\nversion = '1'\n")
    make(tmp_path / "aot.yaml")
    with no_hang():
        assert_refused(invoke(*words))


@waiting
@pytest.mark.parametrize("name", ["pyproject.toml", "gpu", "tuning"])
def test_a_file_that_a_manifest_names(
    name: str, make: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/__init__.py").write_text("def f(x):\n    return x\n")
    text = {
        "gpu": MANIFEST + "targets: [{cuda: {gpu: [./gpu]}}]\n",
        "tuning": MANIFEST + "targets: [{cuda: {gpu: [h100-sxm], tuning: ./tuning}}]\n",
    }.get(name, MANIFEST)
    (tmp_path / "aot.yaml").write_text(text)
    make(tmp_path / name)
    with no_hang():
        assert_refused(invoke("plan"), name)


@waiting
@pytest.mark.parametrize("words", OF_FOLDERS, ids=" ".join)
def test_in_the_place_of_an_index(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "_aot").mkdir()
    make(tmp_path / "_aot/index")
    with no_hang():
        assert_refused(invoke(*words))


@waiting
def test_in_the_place_of_a_blob(make: Callable[[Path], None], tmp_path: Path, honest: Path) -> None:
    shutil.copytree(honest, tmp_path / "_aot")
    blob = min((tmp_path / "_aot/blobs").glob("*.pjrt"))
    blob.unlink()
    make(blob)
    with no_hang():
        library = aotbuild.load(tmp_path / "_aot", arrays="numpy")
        with pytest.raises(AotbuildError):
            library.preload(require=True)
        assert_refused(invoke("verify", "_aot", "--no-run"))


@special
@pytest.mark.parametrize("read", [open_regular, read_regular, open_zip], ids=lambda f: f.__name__)
def test_what_opens_files(
    read: Callable[[Path], Any], make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "x")
    with no_hang(), pytest.raises(OSError, match="x"):
        read(tmp_path / "x")
