"""Wheels as archives: an honest one passes, and what installers would not take is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from attacks import wheels
from attacks.wheels import AOT, INFO, Files, check, edit, failures, with_record

from aotbuild.errors import NoArtifacts, PackageNotFound
from aotbuild.verify.outcome import Status

INIT = "demo/__init__.py"


@pytest.fixture(scope="module")
def files() -> Files:
    return wheels.wheel_files(wheels.aot_files(wheels.make_records()))


@pytest.fixture
def wheel(files: Files, tmp_path: Path) -> Path:
    return wheels.write_wheel(tmp_path / wheels.NAME, with_record(files).items())


def rewrite(wheel: Path, files: Files) -> Path:
    return wheels.write_wheel(wheel, files.items())


def test_an_honest_wheel_passes(wheel: Path) -> None:
    report = check(wheel)
    assert (failures(report), report.passed, report.package) == ({}, True, "demo")
    passed = [o.check for o in report.outcomes if o.status is Status.PASS]
    assert passed == ["wheel", "index", "blobs", "files", "package"]
    # Three records, each neither loaded nor called.
    assert report.count(Status.NOT_CHECKED) == 6


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d[:-30], "not a zip file"),
        (lambda d: wheels.put(d, wheels.local_at(d, INIT), "<I", 7), "cannot be read"),
        (lambda d: wheels.put(d, wheels.central_at(d, INIT) + 10, "<H", 99), "method is not supp"),
    ],
)
def test_a_broken_archive(wheel: Path, change: Callable[[bytearray], bytes], expected: str) -> None:
    report = check(edit(wheel, change))
    assert expected in failures(report)["wheel"]
    skipped = [o.check for o in report.outcomes if "the archive failed" in o.reasons]
    assert skipped == ["index", "blobs", "files"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: r.replace(b"sha256=", b"sha256=A", 1), "didn't match RECORD"),
        (lambda r: r.replace(b",0\n", b",1\n", 1), "didn't match RECORD"),
        (lambda r: b"".join(r.splitlines(keepends=True)[1:]), "is not mentioned in RECORD"),
        (lambda r: r + b"x\n", "RECORD"),
        (lambda r: r + b"\xff,,\n", "Unable to retrieve `RECORD`"),
        (lambda r: r.replace(b"RECORD,,", b"RECORD,sha256=x,1"), "incorrectly contains hash"),
    ],
)
def test_record(files: Files, wheel: Path, change: Callable[[bytes], bytes], expected: str) -> None:
    record = change(wheels.record_of(files))
    found = failures(check(rewrite(wheel, {**files, f"{INFO}/RECORD": record})))
    assert expected in found["wheel"], found


def test_dist_info(files: Files, wheel: Path) -> None:
    two = with_record({**files, "other-1.0.dist-info/METADATA": b""})
    assert "exactly one .dist-info" in failures(check(rewrite(wheel, two)))["wheel"]
    none = {name: data for name, data in files.items() if not name.startswith(INFO)}
    assert "exactly one .dist-info" in failures(check(rewrite(wheel, none)))["wheel"]
    renamed = wheel.rename(wheel.with_name("demo-2.0-py3-none-any.whl"))
    rewrite(renamed, with_record(files))
    assert "expected demo 2.0, found demo 1.0" in failures(check(renamed))["wheel"]
    odd = renamed.rename(wheel.with_name("demo.whl"))
    assert "Invalid wheel filename" in failures(check(odd))["wheel"]


def test_strays_and_wrong_packages(files: Files, wheel: Path) -> None:
    stray = with_record({**files, f"{AOT}/blobs/extra.so": b"x"})
    found = failures(check(rewrite(wheel, stray)))
    assert found == {"files": "'blobs/extra.so' belongs to no record"}
    moved = {name.replace(AOT, "else/_aot"): data for name, data in files.items()}
    assert failures(check(rewrite(wheel, with_record(moved)))) == {
        "package": "the index is of demo: expected demo/_aot"
    }
    both = {**files, "else/_aot/index": files[f"{AOT}/index"]}
    assert "one _aot folder" in failures(check(rewrite(wheel, with_record(both))))["index"]


def test_places_that_hold_nothing(files: Files, tmp_path: Path) -> None:
    with pytest.raises(PackageNotFound):
        check(tmp_path / "gone.whl")
    (tmp_path / "empty.whl").touch()
    assert "not a zip file" in failures(check(tmp_path / "empty.whl"))["wheel"]
    plain = with_record({n: d for n, d in files.items() if not n.startswith(AOT)})
    wheel = wheels.write_wheel(tmp_path / wheels.NAME, plain.items())
    with pytest.raises(NoArtifacts):
        check(wheel)
