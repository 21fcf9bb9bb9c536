"""`aotbuild diff`: which packages it compares, the exit code, the document and `--markdown`."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from support.cli import run
from support.reports import HEADER, make_function, make_record, write_package

from aotbuild.cli.exit_codes import PACKAGE


@pytest.fixture
def old(tmp_path: Path) -> Path:
    records = [make_record(data=b"x" * 10_000), make_record(batch=8)]
    return write_package(tmp_path / "old", [make_function()], records)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    records = [make_record(data=b"x" * 20_000)]
    return write_package(tmp_path / "new", [make_function()], records)


def test_which_packages_are_compared(old: Path, tmp_path: Path) -> None:
    sources = {"files": {"aot.yaml": "ab" * 32, "m.py": "cd" * 32}, "import_root": "."}
    header = {**HEADER, "sources": {**sources, "manifest": "aot.yaml"}}
    new = write_package(tmp_path / "new", [make_function()], [make_record()], header)
    first, second, empty, *_ = run("diff", old, new).stdout.splitlines()
    assert re.fullmatch(r"old: old/_aot \(index [0-9a-f]{12}\)", first)
    assert re.fullmatch(r"new: new/_aot \(index [0-9a-f]{12}, aot.yaml (ab){6}\)", second)
    assert empty == ""


@pytest.mark.parametrize("damage", [b"", b"x", None])
@pytest.mark.parametrize("side", ["old", "new"])
def test_damaged_packages_are_not_compared(
    old: Path, new: Path, side: str, damage: bytes | None
) -> None:
    blob = next(({"old": old, "new": new}[side] / "blobs").iterdir())
    blob.unlink()
    if damage is not None:
        blob.write_bytes(damage)
    result = run("diff", old, new, code=PACKAGE)
    assert result.stdout == ""
    assert "not the bytes that were built" in result.stderr


class TestFolders:
    @pytest.fixture
    def release(self, old: Path, tmp_path: Path) -> Path:
        """A folder with wheels of two projects, one of them for two platforms."""
        for name in ("pack-1-py3-none-a", "pack-1-py3-none-b", "pack_more-1-py3-none-a"):
            self.wheel(tmp_path / "last" / f"{name}.whl", old)
        return tmp_path / "last"

    def wheel(self, place: Path, package: Path) -> Path:
        place.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(place, "w") as archive:
            for file in (file for file in package.rglob("*") if file.is_file()):
                archive.write(file, f"pack/_aot/{file.relative_to(package)}")
        return place

    def names(self, *arguments: Path) -> list[str]:
        lines = run("diff", *arguments).stdout.splitlines()[:2]
        return [line.split()[1] for line in lines]

    def test_the_one_wheel(self, release: Path, old: Path, tmp_path: Path) -> None:
        wheel = self.wheel(tmp_path / "dist" / "pack-2-py3-none-c.whl", old)
        first = release / "pack-1-py3-none-a.whl"
        assert self.names(first, wheel.parent) == [first.name, wheel.name]

    def test_the_wheel_with_these_tags(self, release: Path, old: Path, tmp_path: Path) -> None:
        wheel = self.wheel(tmp_path / "dist" / "pack-2-py3-none-b.whl", old)
        assert self.names(release, wheel) == ["pack-1-py3-none-b.whl", wheel.name]
        assert self.names(wheel.parent, release) == [wheel.name, "pack-1-py3-none-b.whl"]

    def test_the_wheel_of_this_project(self, release: Path, old: Path, tmp_path: Path) -> None:
        wheel = self.wheel(tmp_path / "dist" / "pack_more-2-py3-none-c.whl", old)
        assert self.names(release, wheel.parent) == ["pack_more-1-py3-none-a.whl", wheel.name]

    def test_it_is_not_clear(self, release: Path, old: Path, tmp_path: Path) -> None:
        wheel = self.wheel(tmp_path / "dist" / "pack-2-py3-none-c.whl", old)
        result = run("diff", release, wheel.parent, code=2)
        assert result.stderr.splitlines() == [
            "aotbuild diff: error: it is not clear which wheels to compare",
            *(f"  OLD has {each}" for each in sorted(release.iterdir())),
            f"  NEW has {wheel}",
            "Name one wheel as OLD and one as NEW.",
        ]


def test_the_document_and_the_exit_code(old: Path, new: Path) -> None:
    document = json.loads(run("diff", old, new, "--exit-code", "--json", code=1).stdout)
    assert (document["version"], document["error"], document["different"]) == (1, None, True)
    assert not json.loads(run("diff", old, old, "--exit-code", "--json").stdout)["different"]
    result = run("diff", old, new, "--json", "--markdown", code=2)
    assert "--json and --markdown exclude each other" in result.stderr


def test_markdown(old: Path, new: Path) -> None:
    result = run("diff", old, new, "--markdown")
    mark, title, empty, *identities = result.stdout.splitlines()[:6]
    rest = result.stdout.splitlines()[6:]
    assert (mark, empty) == ("<!-- aotbuild diff -->", "")
    assert [line.partition(" (")[0] for line in identities] == [
        *("```text", "old: old/_aot", "new: new/_aot"),
    ]
    assert title == "### pack: old/_aot → new/_aot"
    assert "- signature f(batch=8)" in rest
    assert "| executable | what | old | new | change |" in rest
    assert run("diff", old, old, "--markdown").stdout.endswith("\n\nno difference\n```\n")


def test_hostile_names_stay_text_in_markdown(tmp_path: Path) -> None:
    evil = "f`|<img src=x>@all\n```\n# [x](http://e.org)\x1b"
    old = write_package(tmp_path / "old", [make_function(evil)], [make_record(evil, label=evil)])
    record = make_record(evil, label=evil, data=b"other")
    new = write_package(tmp_path / "new", [make_function(evil)], [record])
    text = run("diff", old, new, "--markdown").stdout
    row = next(line for line in text.splitlines() if line.startswith("|") and "img" in line)
    # One cell of code: no backtick ends it, no bar splits it, no line leaves it.
    assert row.startswith("| `f'\\|<img src=x>@all\\n'''")
    assert row.count("`") == 2
    assert "\x1b" not in text
