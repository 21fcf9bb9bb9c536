"""Which distribution lists a file: of those in a folder, and the one of a wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from aotbuild.format.dist_info import find_owner

NAME = "pack/_aot/index"
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
RECORDS = {"other": "other.py,,\n", "pack": f"pack/__init__.py,,\n{NAME},sha256=x,1\n"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, record in RECORDS.items():
        info = tmp_path / "site" / f"{name}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(METADATA.format(name=name))
        (info / "RECORD").write_text(record)
    return tmp_path / "site"


def name_of(root: Path, name: str = NAME) -> str | None:
    found = find_owner(root, name)
    return None if found is None else found.name


def test_the_one_whose_record_lists_it(site: Path) -> None:
    assert name_of(site) == "pack"
    assert name_of(site, "other.py") == "other"
    assert name_of(site, "pack/_aot") is None
    assert name_of(site / "pack") is None


def test_a_wheel_is_its_own(tmp_path: Path) -> None:
    wheel = tmp_path / "pack-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pack-1.dist-info/METADATA", METADATA.format(name="pack"))
        archive.writestr("pack-1.dist-info/RECORD", RECORDS["pack"])
    assert name_of(wheel) == "pack"


def test_a_name_with_a_comma_is_quoted(site: Path) -> None:
    (site / "pack-1.dist-info" / "RECORD").write_text('"a,b/_aot/index",,\n')
    assert name_of(site, "a,b/_aot/index") == "pack"
