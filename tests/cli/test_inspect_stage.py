"""`aotbuild inspect --jaxpr` and its like: which text, from where, and what is refused."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.cli import Result, invoke
from support.reports import HEADER, make_function, make_record, write_package, write_stages

from aotbuild.format.record import Record

SMALL = {"jaxpr": b"{ lambda ; }\n", "hlo": b"HloModule small\n\n", "cost": b'{"flops": 1.0}\n'}
LARGE = {**SMALL, "jaxpr": b"{ lambda a ; }\n", "hlo": b"HloModule large \x1b[31m\xff\n"}
PORTABLE = {"jaxpr": SMALL["jaxpr"]}
TEXTS = (SMALL, SMALL, LARGE, PORTABLE)


def make_records() -> list[Record]:
    return [
        make_record(stages=SMALL),
        make_record(target="cpu:x86-64-v4:1", stages=SMALL),
        make_record(batch=8, stages=LARGE),
        make_record(target="portable:cpu:1", stages=PORTABLE),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    functions = [make_function(), make_function("g")]
    header = {**HEADER, "stages": "beside"}
    return write_package(tmp_path / "pack", functions, make_records(), header)


@pytest.fixture
def file(folder: Path) -> Path:
    return write_stages(folder.with_name("_aot.stages.zip"), make_records(), *TEXTS)


def run(*args: object) -> Result:
    return invoke("inspect", *map(str, args))


def test_one_text_and_nothing_else(folder: Path, file: Path) -> None:
    for args in (
        ("--signature", "f(batch=1)", "--target", "cpu:x86-64-v3:1"),
        ("--signature", "batch=1", "--target", "cpu:x86-64-v4"),
        ("--signature", make_record().signature.key(), "--function", "f"),
    ):
        result = run(folder, "--hlo", *args)
        assert result.exit_code == 0, result.output
        assert result.stdout_bytes == SMALL["hlo"]
    assert run(folder, "--cost", "--target", "cpu").stdout_bytes == SMALL["cost"]
    assert run(folder, "--hlo", "--signature", "batch=8").stdout_bytes == LARGE["hlo"]
    assert file.exists()


@pytest.mark.process
def test_a_terminal_is_not_steered(folder: Path, file: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "aotbuild.cli", "inspect", folder, "--hlo", "--signature"]
    done = subprocess.run([*command, "batch=8"], stdout=theirs, check=False)
    os.close(theirs)
    printed = os.read(ours, 1000)
    os.close(ours)
    assert (done.returncode, file.exists()) == (0, True)
    assert printed.decode() == "HloModule large \\x1b[31m\ufffd\r\n"


def test_several_that_differ_are_listed(folder: Path, file: Path) -> None:
    result = run(folder, "--hlo")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "2 different texts fit --hlo; add one of" in result.stderr
    # The two levels have one text, and the portable form has none.
    assert result.stderr.endswith("\n  --signature batch=1\n  --signature batch=8\n")
    unknown = run(folder, "--hlo", "--target", "tpu")
    assert unknown.exit_code == 2
    assert "nothing has this signature and target; there is" in unknown.stderr
    assert "--signature batch=1 --target portable:cpu:1" in unknown.stderr
    assert file.exists()


def test_options_that_do_not_go_together(folder: Path, tmp_path: Path) -> None:
    for args, expected in (
        (["--hlo", "--cost"], "--hlo and --cost exclude each other"),
        (["--signature", "batch=1"], "go with one of --jaxpr,"),
        (["--stages", "f.zip"], "go with one of --jaxpr,"),
        (["--hlo", "--digests"], "leave out --html and --digests"),
        (["--hlo", "--html", tmp_path / "p.html"], "leave out --html and --digests"),
    ):
        result = run(folder, *args)
        assert result.exit_code == 2
        assert expected in result.stderr


def test_what_was_not_kept(folder: Path, file: Path) -> None:
    result = run(folder, "--memory", "--signature", "batch=8")
    assert (result.exit_code, result.stdout) == (7, "")
    assert result.stderr == (
        "f(batch=8) cpu:x86-64-v3:1: its memory was not kept\n  kept: jaxpr, hlo, cost\n"
        "Write keep: [jaxpr, hlo, cost, memory] in the manifest, and build again.\n"
    )
    portable = run(folder, "--hlo", "--target", "portable", "--json")
    assert portable.exit_code == 7
    error = json.loads(portable.stdout)["error"]
    assert error["type"] == "StageNotKept"
    assert "ask for an executable with --target" in error["message"]
    assert file.exists()


def test_a_file_that_is_not_there(folder: Path, tmp_path: Path) -> None:
    result = run(folder, "--cost", "--target", "cpu")
    assert (result.exit_code, result.stdout) == (7, "")
    assert f"searched {folder}.stages.zip" in result.stderr
    moved = write_stages(tmp_path / "moved.zip", make_records(), *TEXTS)
    found = run(folder, "--cost", "--target", "cpu", "--stages", moved)
    assert found.stdout_bytes == SMALL["cost"]
    gone = run(folder, "--cost", "--target", "cpu", "--stages", tmp_path / "gone.zip")
    assert gone.exit_code == 7
    assert "gone.zip" in gone.stderr


@pytest.mark.parametrize("text", [b"HloModule smalL\n\n", b"", b"HloModule small\n\n\n"])
def test_other_bytes_are_not_printed(folder: Path, file: Path, text: bytes) -> None:
    file.unlink()
    write_stages(file, make_records(), *[{**texts, "hlo": text} for texts in TEXTS])
    result = run(folder, "--hlo", "--signature", "batch=1")
    assert (result.exit_code, result.stdout) == (7, "")
    assert "Take the file that was built together with this package" in result.stderr


def test_a_file_that_is_no_zip(folder: Path, file: Path) -> None:
    file.write_bytes(b"no zip")
    result = run(folder, "--cost", "--target", "cpu")
    assert result.exit_code == 7
    assert "expected a zip file of kept stages" in result.stderr


def test_a_file_of_another_build(folder: Path, file: Path) -> None:
    file.unlink()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("blobs/other", b"")
    result = run(folder, "--cost", "--target", "cpu")
    assert result.exit_code == 7
    assert "no such file" in result.stderr


def test_the_document(folder: Path, file: Path) -> None:
    document = json.loads(run(folder, "--hlo", "--signature", "batch=8", "--json").stdout)
    blob = dict(make_record(stages=LARGE).stages)["hlo"]
    assert document["stage"] == {
        "name": "hlo", "function": "f", "signature": "batch=8", "target": "cpu:x86-64-v3:1",
        "jaxlib": "0.10.2",
        "kind": "hlo", "sha256": blob.sha256, "size": blob.size,
        "text": "HloModule large \x1b[31m\ufffd\n",
    }  # fmt: skip
    assert document["package"] == "pack"
    assert file.exists()


def test_what_is_kept_is_said(folder: Path) -> None:
    assert "  stages    jaxpr, hlo, cost (beside)" in run(folder).stdout
    document = json.loads(run(folder, "--json").stdout)
    assert document["stages"] == {"where": "beside", "names": ["jaxpr", "hlo", "cost"]}
    executables = document["functions"][0]["signatures"][0]["executables"]
    assert [list(one["stages"]) for one in executables] == [[*SMALL], [*SMALL], ["jaxpr"]]


def test_in_the_wheel(tmp_path: Path) -> None:
    header = {**HEADER, "stages": "wheel"}
    folder = write_package(tmp_path / "in", [make_function()], make_records(), header)
    before = json.loads(run(folder, "--json").stdout)["totals"]
    assert before["blobs"] == 4 + len({*SMALL.values(), *LARGE.values()})
    write_stages(tmp_path / "in" / "all.zip", make_records(), *TEXTS)
    with zipfile.ZipFile(tmp_path / "in" / "all.zip") as archive:
        archive.extractall(folder)
    assert run(folder, "--hlo", "--signature", "batch=1").stdout_bytes == SMALL["hlo"]
    page = tmp_path / "page.html"
    assert run(folder, "--html", page).exit_code == 0
    html = page.read_text(encoding="utf-8")
    assert "<pre>HloModule small\n\n</pre>" in html
    assert "<pre>HloModule large \\x1b[31m\ufffd\n</pre>" in html
    assert html.count("{ lambda ; }") == 1
    (folder / dict(make_records()[0].stages)["hlo"].path).write_bytes(b"HloModule <script>\n\n")
    assert run(folder, "--html", page).exit_code == 7
    digests = run(folder, "--digests", "--json")
    assert len(json.loads(digests.stdout)["digests"]["damaged"]) == 1


def test_pages_do_not_read_the_file_beside(folder: Path, file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(folder, "--html", page).exit_code == 0
    assert "<pre>" not in page.read_text(encoding="utf-8")
    assert "jaxpr, hlo, cost (beside)" in page.read_text(encoding="utf-8")
    assert file.exists()


def test_a_wheel_has_it_beside(folder: Path, file: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "pack-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(folder / "index", "pack/_aot/index")
    file.rename(tmp_path / "pack-1.0-py3-none-any.stages.zip")
    assert run(wheel, "--cost", "--target", "cpu").stdout_bytes == SMALL["cost"]
