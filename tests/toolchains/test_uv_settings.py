"""What uv chose under the settings of one project is not taken for another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aotbuild.errors import PlanError
from aotbuild.toolchains.uv import cache_folder, cache_root
from aotbuild.toolchains.uv_settings import settings_key

TABLE = '[tool.uv]\nfind-links = ["links"]\n'
INDEX = 'find-links = ["links"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "project"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "p"\n')
    return folder


def key(project: Path, **variables: str) -> object:
    home = project.parent.parent / "config"
    return settings_key(project, {"XDG_CONFIG_HOME": str(home), **variables})


CHANGES: dict[str, Callable[[Path], object]] = {
    "uv.toml": lambda folder: (folder / "uv.toml").write_text(INDEX),
    "uv.toml above": lambda folder: (folder.parent / "uv.toml").write_text(INDEX),
    "a table": lambda folder: (folder / "pyproject.toml").write_text(TABLE),
    "a table above": lambda folder: (folder.parent / "pyproject.toml").write_text(TABLE),
    "what cannot be read": lambda folder: (folder / "uv.toml").mkdir(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_settings_of_a_project(name: str, project: Path) -> None:
    before = key(project)
    CHANGES[name](project)
    assert key(project) != before


def test_a_setting_that_changes(project: Path) -> None:
    (project / "uv.toml").write_text(INDEX)
    before = key(project)
    (project / "uv.toml").write_text(INDEX.replace("links", "other"))
    assert key(project) != before
    (project / "uv.toml").write_text(INDEX)
    assert key(project) == before


def test_relative_paths_of_two_projects(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    assert key(project) == key(other), "without settings, versions are shared"
    for folder in (project, other):
        (folder / "uv.toml").write_text(INDEX)
    assert key(project) != key(other)


def test_settings_of_the_user(project: Path) -> None:
    before = key(project)
    place = project.parent.parent / "config" / "uv"
    place.mkdir(parents=True)
    (place / "uv.toml").write_text(INDEX)
    assert key(project) != before
    (project / "chosen.toml").write_text(INDEX)
    chosen = key(project, UV_CONFIG_FILE="chosen.toml")
    (project / "chosen.toml").write_text("")
    assert key(project, UV_CONFIG_FILE="chosen.toml") != chosen
    assert key(project, UV_INDEX_URL="https://example.invalid") != key(project)


def test_what_is_no_setting(project: Path) -> None:
    before = key(project)
    (project / "pyproject.toml").write_text('[project]\nname = "q"\n[tool.ruff]\n')
    (project / "setup.cfg").touch()
    assert key(project) == before


def test_a_place_of_toolchains_is_absolute() -> None:
    """A relative one was put into the project, and shipped in its source distribution."""
    for text in ("tc", "./tc", "~nobody-of-this-name/tc"):
        with pytest.raises(PlanError, match="AOTBUILD_TOOLCHAINS: expected an absolute path"):
            cache_root({"AOTBUILD_TOOLCHAINS": text})
    assert cache_root({"AOTBUILD_TOOLCHAINS": "~/tc"}) == Path.home() / "tc"


def test_others_may_not_write_to_the_place_of_toolchains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is there runs, so it is told once; a folder of one's own is not mentioned."""
    for mode in (0o777, 0o755):
        place = tmp_path / f"{mode:o}"
        place.mkdir()
        place.chmod(mode)
        monkeypatch.setenv("AOTBUILD_TOOLCHAINS", str(place))
        assert [cache_folder(), cache_folder()] == [place, place]
    (record,) = caplog.records
    said = f"{tmp_path / '777'}: everybody may write to it (mode 777), and builds would run what"
    assert record.getMessage().startswith(said)
