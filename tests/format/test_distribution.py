"""Which distribution has an index: of those in a folder, by their RECORDs, or that of a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.format.dist_info import Distribution, distribution_at

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
RECORDS = {"other": "other.py,,\n", "pack": "pack/__init__.py,,\npack/_aot/index,sha256=x,1\n"}
HEADER = {"package": "pack"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, record in RECORDS.items():
        info = tmp_path / "site" / f"{name}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(METADATA.format(name=name))
        (info / "RECORD").write_text(record)
    return tmp_path / "site"


def test_the_one_whose_record_lists_it(site: Path) -> None:
    assert distribution_at(f"{site}/pack/_aot", HEADER) == Distribution("pack", "1")
    assert distribution_at(f"{site}/pack/_aot", {"package": "other"}) is None
    assert distribution_at(f"{site}/other/_aot", {"package": "other"}) is None
    assert distribution_at(f"{site}/deeper/pack/_aot", HEADER) is None


def test_a_wheel_says_it_in_its_name(tmp_path: Path) -> None:
    wheel = tmp_path / "pack-1.2-py3-none-any.whl"
    wheel.touch()
    assert distribution_at(f"{wheel}/pack/_aot", HEADER) == Distribution("pack", "1.2")
    assert distribution_at(f"{tmp_path}/no-1.whl/pack/_aot", HEADER) is None


def test_a_name_with_a_comma_is_quoted(site: Path) -> None:
    record = site / "pack-1.dist-info" / "RECORD"
    record.write_text('"pack/_aot/index",sha256=x,1\n')
    assert distribution_at(f"{site}/pack/_aot", HEADER) == Distribution("pack", "1")
