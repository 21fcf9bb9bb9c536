"""Locating: folders, wheels and packages, found without importing anything of the user's."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import aotbuild
from aotbuild.errors import AotbuildError, InvalidIndex, NoArtifacts, PackageNotFound
from aotbuild.format.index import write_index
from aotbuild.runtime.api import locate
from aotbuild.runtime.checked_blobs import open_index
from aotbuild.runtime.wheel_source import WheelSource
from aotbuild.verify.contents import files_of_wheel


def write_artifacts(folder: Path) -> Path:
    (folder / "_aot").mkdir(parents=True)
    (folder / "_aot" / "index").write_bytes(write_index({"package": "p"}, [], []))
    return folder / "_aot"


def write_wheel(path: Path, *members: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for member in members:
            file.writestr(member, write_index({"package": "p"}, [], []))
    return path


class TestPaths:
    @pytest.mark.parametrize("as_text", [True, False])
    def test_the_aot_folder_or_its_parent(self, tmp_path: Path, as_text: bool) -> None:
        folder = write_artifacts(tmp_path / "pkg")
        for given in (folder, folder.parent):
            assert locate(str(given) if as_text else given).path == str(folder)

    @pytest.mark.parametrize("given", ["pkg", "pkg/_aot", "p.whl", "link"])
    def test_a_relative_path_means_the_same_later(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
    ) -> None:
        write_artifacts(tmp_path / "pkg")
        write_wheel(tmp_path / "p.whl", "p/_aot/index")
        (tmp_path / "link").symlink_to("pkg")
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path)
        source = locate(f"./{given}", stays=True)
        monkeypatch.chdir(tmp_path / "other")
        assert open_index(source).header["package"] == "p"
        # Links stay in it.
        assert source.path.startswith(f"{tmp_path}/{given}")

    def test_a_folder_without_artifacts(self, tmp_path: Path) -> None:
        with pytest.raises(NoArtifacts, match="no _aot/index"):
            locate(tmp_path)


class TestWheels:
    def test_its_one_folder(self, tmp_path: Path) -> None:
        source = locate(write_wheel(tmp_path / "p.whl", "p/__init__.py", "p/_aot/index"))
        assert source.path == f"{tmp_path / 'p.whl'}/p/_aot"
        assert open_index(source).header["package"] == "p"
        source.close()
        with pytest.raises(AotbuildError, match="the library was closed, and with it the wheel"):
            open_index(source)

    @pytest.mark.parametrize("folder", ["", "p/"])
    def test_files_of_similar_names(self, tmp_path: Path, folder: str) -> None:
        others = (f"{folder}data_aot/index", "x_aot/index", "_aot.py/index", "x/index/_aot")
        source = locate(write_wheel(tmp_path / "p.whl", *others, f"{folder}_aot/index"))
        assert source.path == f"{tmp_path / 'p.whl'}/{folder}_aot"
        assert files_of_wheel(tmp_path / "p.whl") == ["index"]

    def test_with_two_folders(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidIndex, match="one _aot folder"):
            locate(write_wheel(tmp_path / "p.whl", "p/_aot/index", "q/_aot/index"))

    def test_that_is_no_zip_file(self, tmp_path: Path) -> None:
        (tmp_path / "p.whl").write_text("nonsense")
        with pytest.raises(InvalidIndex, match="a wheel"):
            locate(str(tmp_path / "p.whl"))

    def test_a_damaged_member_raises_oserror(self, tmp_path: Path) -> None:
        path = write_wheel(tmp_path / "p.whl", "p/_aot/index")
        data = bytearray(path.read_bytes())
        data[data.index(b"aotbuild-index") + 2] ^= 1
        path.write_bytes(data)
        with pytest.raises(OSError, match="CRC"):
            WheelSource(path).read("index")


@pytest.mark.parametrize("package", [3, None, sys])
def test_what_is_neither_a_name_nor_a_path(package: Any) -> None:
    with pytest.raises(AotbuildError, match="expected the name of a package, or a path"):
        aotbuild.load(package)


class TestPackages:
    def test_found_in_the_current_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As an empty entry of `sys.path` has it: in the folder that is the current one now."""
        folder = write_artifacts(tmp_path / "here" / "locate_here")
        monkeypatch.chdir(tmp_path / "here")
        monkeypatch.setattr(sys, "path", ["", *sys.path])
        source = locate("locate_here", stays=True)
        monkeypatch.chdir(tmp_path)
        assert source.path == str(folder)
        assert open_index(source).header["package"] == "p"

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(tmp_path))

    def package(self, root: Path, name: str) -> Path:
        folder = root.joinpath(*name.split("."))
        folder.mkdir(parents=True)
        for parent in (folder, *folder.parents):
            if parent == root:
                break
            (parent / "__init__.py").write_text("raise SystemExit('imported')")
        return folder

    @pytest.mark.parametrize("name", ["locate_one", "locate_two.inner.core"])
    def test_found_without_importing(self, tmp_path: Path, name: str) -> None:
        folder = write_artifacts(self.package(tmp_path, name))
        assert locate(name).path == str(folder)
        assert name not in sys.modules

    def test_artifacts_beside_an_editable_source(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.package(tmp_path, "locate_edited")
        site = tmp_path / "site-packages"
        folder = write_artifacts(site / "locate_edited")
        monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
        assert locate("locate_edited").path == str(folder)

    def test_no_artifacts_names_the_places(self, tmp_path: Path) -> None:
        folder = self.package(tmp_path, "locate_bare")
        with pytest.raises(NoArtifacts) as caught:
            locate("locate_bare")
        assert caught.value.searched == (str(folder / "_aot"),)

    def test_a_package_in_a_zip_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Python imports it from there, so the error says that nothing is loaded from it."""
        place = tmp_path / "app.zip"
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr("locate_zipped/__init__.py", "")
            archive.writestr("locate_zipped/_aot/index", "")
        monkeypatch.setattr(sys, "path", [str(place), *sys.path])
        message = f"Nothing is loaded from within {place}: give the path of a wheel"
        with pytest.raises(PackageNotFound, match=re.escape(message)):
            locate("locate_zipped")

    @pytest.mark.parametrize("name", ["locate_absent", "locate_absent.inner", "no such name", ""])
    def test_not_found(self, name: str) -> None:
        with pytest.raises(PackageNotFound) as caught:
            locate(name)
        assert caught.value.package == name
