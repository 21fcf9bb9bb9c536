"""`aotbuild diff`: which packages it compares, the exit codeand the document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.cli import run
from support.reports import make_function, make_record, write_package

from aotbuild.cli.exit_codes import FILES


@pytest.fixture
def old(tmp_path: Path) -> Path:
    records = [make_record(data=b"x" * 10_000), make_record(batch=8)]
    return write_package(tmp_path / "old", [make_function()], records)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    records = [make_record(data=b"x" * 20_000)]
    return write_package(tmp_path / "new", [make_function()], records)


def test_which_packages_are_compared(old: Path, new: Path) -> None:
    first, second, empty, *_ = run("diff", old, new).stdout.splitlines()
    assert re.fullmatch(r"old: old/_aot \(index [0-9a-f]{12}\)", first)
    assert re.fullmatch(r"new: new/_aot \(index [0-9a-f]{12}\)", second)
    assert empty == ""


@pytest.mark.parametrize(("side", "damage"), [("old", b"x"), ("new", None)])
def test_damaged_packages_are_not_compared(
    old: Path, new: Path, side: str, damage: bytes | None
) -> None:
    blob = next(({"old": old, "new": new}[side] / "blobs").iterdir())
    blob.unlink()
    if damage is not None:
        blob.write_bytes(damage)
    result = run("diff", old, new, code=FILES)
    assert result.stdout == ""
    assert "not the bytes that were built" in result.stderr
