"""`aotbuild verify` and kept stages: in the package as blobs, beside it as a check of their own."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from support.reports import FITTING, HEADER, make_blob, make_function, make_record, write_stages

from aotbuild.format.index import write_index
from aotbuild.format.record import Record
from aotbuild.verify.api import Options, verify
from aotbuild.verify.outcome import Outcome, Status

TEXTS = {"jaxpr": b"{ lambda ; }\n", "hlo": b"HloModule f\n"}


def make_package(root: Path, header: dict[str, str], records: list[Record]) -> Path:
    folder = root / "pack" / "_aot"
    (folder / "blobs").mkdir(parents=True)
    (folder / "index").write_bytes(
        write_index({**HEADER, **header}, [make_function(**FITTING)], records)
    )
    for record in records:
        data = f"{record.function}1{record.target}".encode()
        assert make_blob(data) == record.blob
        (folder / record.blob.path).write_bytes(data)
    return folder


def outcome_of(folder: Path, check: str = "stages") -> Outcome | None:
    found = [o for o in verify(str(folder), Options(load=False)).outcomes if o.check == check]
    assert len(found) < 2
    return found[0] if found else None


@pytest.fixture
def records() -> list[Record]:
    return [make_record(stages=TEXTS)]


@pytest.fixture
def folder(tmp_path: Path, records: list[Record]) -> Path:
    return make_package(tmp_path, {"stages": "beside"}, records)


@pytest.fixture
def file(folder: Path, records: list[Record]) -> Path:
    return write_stages(folder.with_name("_aot.stages.zip"), records, TEXTS)


def test_nothing_kept(tmp_path: Path) -> None:
    assert outcome_of(make_package(tmp_path, {}, [make_record()])) is None


def test_the_file_is_whole(folder: Path, file: Path) -> None:
    outcome = outcome_of(folder)
    assert outcome == Outcome("stages", file.name, Status.PASS)


def test_the_file_is_not_there(folder: Path) -> None:
    outcome = outcome_of(folder)
    assert outcome is not None
    assert outcome.status is Status.NOT_CHECKED
    assert outcome.reasons == (f"the file is not there: {folder}.stages.zip",)


def test_other_bytes(folder: Path, file: Path, records: list[Record]) -> None:
    write_stages(file, records, {**TEXTS, "hlo": b"HloModule g\n"})
    outcome = outcome_of(folder)
    assert outcome is not None
    assert outcome.status is Status.FAIL
    assert "with SHA-256" in outcome.reasons[0]
    assert outcome.reasons[-1].startswith("Take the file that was built together")
    report = verify(str(folder), Options(load=False))
    assert "--no-run" in report.outcomes[-1].reasons[0], "executables are not held back by it"


def test_a_file_of_another_build(folder: Path, file: Path) -> None:
    file.unlink()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("blobs/other.hlo", b"HloModule other\n")
    outcome = outcome_of(folder)
    assert outcome is not None
    assert outcome.status is Status.FAIL
    assert any("'blobs/other.hlo' belongs to no record" in reason for reason in outcome.reasons)
    assert sum("no such file" in reason for reason in outcome.reasons) == 2


def test_what_is_no_zip_file(folder: Path, file: Path) -> None:
    file.write_bytes(b"PK no zip")
    outcome = outcome_of(folder)
    assert outcome is not None
    assert outcome.status is Status.FAIL


def test_in_the_package_they_are_blobs(tmp_path: Path, records: list[Record]) -> None:
    folder = make_package(tmp_path, {"stages": "wheel"}, records)
    for name, blob in records[0].stages:
        (folder / blob.path).write_bytes(TEXTS[name])
    assert outcome_of(folder) is None
    for check in ("blobs", "files"):
        outcome = outcome_of(folder, check)
        assert outcome is not None
        assert outcome.status is Status.PASS, outcome
    (folder / records[0].stages[1][1].path).write_bytes(b"HloModule g\n")
    outcome = outcome_of(folder, "blobs")
    assert outcome is not None
    assert outcome.status is Status.FAIL
