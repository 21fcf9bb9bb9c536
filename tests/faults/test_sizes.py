"""Files and members of absurd sizes, claimed or real, and records of many names: soon refused."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from faults import lies
from faults.ended import assert_refused
from faults.readers import INFO, OF_FOLDERS, OF_WHEELS, WHEEL, no_hang, wheel_with
from support.cli import invoke

import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.format.archives import MOST_DIRECTORY, MOST_METADATA
from aotbuild.format.files import MOST_TEXT, read_regular
from aotbuild.format.index import MOST_INDEX


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sparse(place: Path, size: int, start: bytes = b"") -> Path:
    with place.open("wb") as file:
        file.write(start)
        file.truncate(size)
    return place


HUGE = (1 << 61, 1 << 62, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30)


@pytest.mark.cause(12)
@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_a_blob_that_claims_to_be_huge(
    size: int, arrays: str, tmp_path: Path, honest: Path
) -> None:
    def edit(record: Any) -> None:
        record["blob"][2] = size

    place = lies.edited(honest, tmp_path, "double", edit)
    with no_hang(), pytest.raises(AotbuildError):
        aotbuild.load(place, arrays=arrays).preload(require=True)
    with no_hang():
        assert_refused(invoke("verify", "_aot", "--no-run"))


@pytest.mark.cause(12)
@pytest.mark.parametrize("key", ["constants", "golden"])
def test_another_file_that_claims_to_be_huge(key: str, tmp_path: Path, honest: Path) -> None:
    def edit(record: Any) -> None:
        if key == "golden":
            record["golden"]["outputs"][2] = 1 << 61
        else:
            record["calling"]["constants"][0][1][2] = 1 << 61

    place = lies.edited(honest, tmp_path, "shifted", edit)
    with no_hang():
        assert_refused(invoke("verify", place, "--no-run"))


@pytest.mark.cause(12)
@pytest.mark.parametrize("size", [MOST_INDEX + 1, 1 << 40])
@pytest.mark.parametrize("start", [b"", b"aotbuild-index 1 "], ids=["zeros", "begun"])
def test_a_sparse_index(size: int, start: bytes, tmp_path: Path) -> None:
    (tmp_path / "_aot").mkdir()
    sparse(tmp_path / "_aot/index", size, start)
    with no_hang(), pytest.raises(AotbuildError, match=f"at most {MOST_INDEX:,} bytes"):
        aotbuild.load(tmp_path / "_aot")
    for words in OF_FOLDERS:
        with no_hang():
            assert_refused(invoke(*words))


@pytest.mark.cause(12)
@pytest.mark.parametrize("name", ["index", "METADATA", "RECORD", "WHEEL"])
@pytest.mark.parametrize("words", OF_WHEELS[:3], ids=" ".join)
def test_a_member_that_claims_to_be_huge(
    words: tuple[str, ...], name: str, tmp_path: Path, honest: Path
) -> None:
    wheel_with(tmp_path / WHEEL, honest, **{name: (1 << 32) - 2})
    with no_hang():
        ended = invoke(*(word.format(WHEEL) for word in words))
    # Not all of them read all members.
    assert_refused(ended, codes=[0, 7, 9])


@pytest.mark.cause(12)
@pytest.mark.parametrize("name", ["METADATA", "RECORD"])
def test_a_bomb(name: str, tmp_path: Path, honest: Path) -> None:
    place = wheel_with(tmp_path / WHEEL, honest)
    with zipfile.ZipFile(place) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    member = f"{INFO}/{name}"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in files.items():
            archive.writestr(each, data + b" " * (80 << 20) if each == member else data)
    library = aotbuild.load(place)
    assert library.version is None
    for words in (("inspect", WHEEL), ("diff", WHEEL, WHEEL)):
        with no_hang():
            assert_refused(invoke(*words), codes=[0, 7])


@pytest.mark.cause(12)
@pytest.mark.parametrize("size", [MOST_DIRECTORY + 1, (1 << 32) - 2])
def test_a_directory_that_claims_to_be_huge(size: int, tmp_path: Path, honest: Path) -> None:
    place = wheel_with(tmp_path / WHEEL, honest)
    end = place.read_bytes()[-22:]
    sparse(place, size + (1 << 20))
    with place.open("ab") as file:
        file.write(end[:12] + struct.pack("<II", size, 1 << 19) + end[20:])
    with no_hang(), pytest.raises(AotbuildError, match="its directory has"):
        aotbuild.load(place)
    for words in OF_WHEELS[:3]:
        with no_hang():
            assert_refused(invoke(*(word.format(WHEEL) for word in words)))


@pytest.mark.cause(12)
@pytest.mark.parametrize("size", [1 << 33, 1 << 40])
def test_a_sparse_wheel(size: int, tmp_path: Path) -> None:
    sparse(tmp_path / WHEEL, size)
    with no_hang():
        assert_refused(invoke("inspect", WHEEL))
        assert_refused(invoke("verify", WHEEL, "--no-run"))


@pytest.mark.cause(12)
@pytest.mark.parametrize("name", ["aot.yaml", "calls", "stages.zip"])
def test_a_sparse_file(name: str, tmp_path: Path, honest: Path) -> None:
    sparse(tmp_path / name, 1 << 40)
    words: dict[str, tuple[object, ...]] = {
        "aot.yaml": ("plan",),
        "calls": ("record", "--from", "calls"),
        "stages.zip": ("inspect", honest, "--stage", "hlo", "--stages", name),
    }
    with no_hang():
        assert_refused(invoke(*words[name]))
    with no_hang(), pytest.raises(OSError, match=f"{MOST_TEXT:,}"):
        read_regular(name)


@pytest.mark.cause(12)
def test_the_limits_are_generous() -> None:
    assert MOST_METADATA > 1 << 20
    assert MOST_INDEX > 100_000 * 1500


# --- names ----------------------------------------------------------------------------------------

MANY = 200_000  # seconds, or an hour if each is looked up in all the others


@pytest.mark.cause(13)
@pytest.mark.parametrize("key", ["positional", "keywords", "donate"])
@pytest.mark.parametrize("command", ["inspect", "diff"])
def test_many_names(command: str, key: str, tmp_path: Path, honest: Path) -> None:
    names = [f"p{number}" for number in range(MANY)]

    def edit(function: Any) -> None:
        function[key] = [*function[key], *names]

    place = lies.edited(honest, tmp_path, "double", function=edit)
    with no_hang():
        ended = invoke(command, place, *([place] if command == "diff" else []))
    # What is donated has to be a parameter.
    assert_refused(ended, codes=[7] if key == "donate" else [0])
