"""`aotbuild coverage`: the report, its files, and when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.cli import invoke, run
from support.recordings import argument, call, recording
from support.reports import HEADER, make_function, make_record, write_package

from aotbuild.format.signature import Static
from aotbuild.record.recording import (
    Program,
    RecordedFunction,
    Recording,
    Tally,
    call_line,
    first_line,
    function_line,
    program_line,
    tally_line,
)

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def written(file: Path, found: Recording, jax: str = "0.10.2") -> Path:
    """Write a recording to a file, as a watched process does."""
    lines = [
        first_line(),
        program_line(Program("one", ("prog.py",), {"jax": jax}, "cpu", "2026-01-31T12:00:00Z")),
        *map(function_line, found.functions.values()),
        *map(call_line, found.calls.values()),
        *(tally_line(key, tally) for key, tally in found.tallies.items()),
    ]
    file.write_bytes(b"".join(lines))
    return file


def calls(*batches: int, times: int = 1) -> Recording:
    return recording(
        {"pack.m:f": [call(argument("x", f"f32[{batch},2]"), times=times) for batch in batches]}
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    function = make_function(keywords=(), statics=(Static("k", 3),))
    return write_package(tmp_path, [function], [make_record(batch=n) for n in (1, 8)])


def test_the_report(tmp_path: Path, package: Path) -> None:
    file = written(tmp_path / "calls.jsonl", calls(1, 3))
    lines = run("coverage", file, package).stdout.splitlines()
    assert lines[1:] == [
        "",
        "FUNCTION  CALLS  COVERED  EXACT  PADDED  PORTABLE  MISSING",
        "pack.m:f  2      50.0%    1      -       -         1",
        "",
        "not covered",
        "  pack.m:f(x f32[3,2]): 1 call, 1.0 s to compile",
        "    nearest: batch=1",
        "    x: compiled for f32[1,2], called with f32[3,2]",
        "",
        "compiled, but never called",
        f"  f(batch=8) for cpu:x86-64-v3:1, {len('f8cpu:x86-64-v3:1')} B",
        "",
        "covered: 50.0% of calls, 50.0% of the seconds to compile, 1 of 2 signatures",
    ]


def test_several_recordings_are_added_up(tmp_path: Path, package: Path) -> None:
    one = written(tmp_path / "one.jsonl", calls(1, times=5))
    other = written(tmp_path / "other.jsonl", calls(1, 8, times=2))
    document = json.loads(run("coverage", one, other, package, "--json").stdout)
    (function,) = document["functions"]
    assert [(s["state"], s["calls"]) for s in function["signatures"]] == [
        ("exact", 7),
        ("exact", 2),
    ]
    assert document["covered"]["calls"] == {"covered": 9, "total": 9, "percent": 100.0}
    assert document["unused"] == []


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--fail-under", "100"], 15),
        (["--fail-under", "66"], 0),
        (["--fail-under", "67%"], 15),
        (["--fail-under", "60", "--by", "seconds"], 15),
        (["--fail-under", "50", "--by", "signatures"], 0),
        (["--fail-under", "101"], 2),
        (["--fail-under", "all"], 2),
    ],
)
def test_fail_under(tmp_path: Path, package: Path, options: list[str], code: int) -> None:
    found = recording(
        {
            "pack.m:f": [
                call(argument("x", "f32[1,2]"), times=2, seconds=1.0),
                call(argument("x", "f32[3,2]"), times=1, seconds=1.0),
            ]
        }
    )
    file = written(tmp_path / "calls.jsonl", found)
    result = invoke("coverage", file, package, *options)
    assert result.exit_code == code, result.output
    assert ("less than the" in result.stdout) is (code == 15)


def test_the_page_escapes_and_sends_no_request(tmp_path: Path, package: Path) -> None:
    function = RecordedFunction(f"pack.m:{HOSTILE}", file=HOSTILE, line=1)
    found = recording({}, (function, [call(argument(HOSTILE, "f32[1,2]"))]))
    file = written(tmp_path / "calls.jsonl", found)
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    run("coverage", file, package, "--html", page, "--junit", junit)
    html = page.read_text("utf-8")
    assert "<script>alert" not in html
    assert "\x1b" not in html
    assert 'content="default-src &#39;none&#39;' in html
    assert "compiled, but never called" in html.lower()
    root = ET.parse(junit).getroot()
    assert root[0].get("name") == "pack.m:<script>alert(1)</script>\\x1b[31m"


def test_github_gets_a_summary_and_an_annotation(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, summary = written(tmp_path / "calls.jsonl", calls(1, 3)), tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    result = run("coverage", file, package, "--fail-under", "100", code=15)
    assert "::error title=aotbuild coverage::50.0%25 of calls covered" in result.stderr
    assert "| pack.m:f | 2 | 50.0% |" in summary.read_text()


def test_junit_has_a_case_for_each_signature(tmp_path: Path, package: Path) -> None:
    file = written(tmp_path / "calls.jsonl", calls(1, 3, 8))
    run("coverage", file, package, "--junit", tmp_path / "junit.xml")
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    failed = [case for case in suite if len(case)]
    assert [case.get("name") for case in failed] == ["x f32[3,2]"]
    assert "called with f32[3,2]" in str(failed[0][0].text)


def test_another_jax_is_told(tmp_path: Path, package: Path) -> None:
    file = written(tmp_path / "calls.jsonl", calls(1), jax="0.9.0")
    note = f"recorded with jax 0.9.0; the package is for jax {HEADER['jax']}"
    assert note in run("coverage", file, package).stdout


def test_another_version_of_the_source_is_told(tmp_path: Path) -> None:
    module = tmp_path / "pack" / "m.py"
    module.parent.mkdir()
    module.write_text("new = True\n")
    manifest = tmp_path / "aot.yaml"
    manifest.write_text(
        'version: 1\npackage: pack\nfunctions: {f: {call: "pack.m:f", args: [{x: "f32[1,2]"}]}}\n'
    )
    function = RecordedFunction("pack.m:f", positional=("x",), file=str(module), digest="0" * 64)
    found = recording({}, (function, [call(argument("x", "f32[1,2]"))]))
    file = written(tmp_path / "calls.jsonl", found)
    output = run("coverage", file, manifest).stdout
    assert f"{module} has changed since it was recorded (f)" in output
    assert "covered: 100% of calls" in output
    sources = {"files": {"src/pack/m.py": "1" * 64}, "import_root": "src"}
    packaged = write_package(
        tmp_path, [make_function()], [make_record()], {**HEADER, "sources": sources}
    )
    output = run("coverage", file, packaged).stdout
    assert "pack.m was another version when it was recorded" in output


def test_the_header_of_a_package(tmp_path: Path) -> None:
    """Several toolchains are no other version, and malformed sources are for `verify` to tell."""
    header = {**HEADER, "jax": "0.10.2, 0.12.0", "sources": {"files": 3}}
    package = write_package(tmp_path, [make_function()], [make_record()], header)
    for jax, told in (("0.10.2", False), ("0.12.0", False), ("0.11.0", True)):
        found = written(tmp_path / "calls.jsonl", calls(1), jax=jax)
        assert ("recorded with jax" in run("coverage", found, package).stdout) is told


def test_an_unknown_target_and_counters_for_a_manifest(tmp_path: Path, package: Path) -> None:
    file = written(tmp_path / "calls.jsonl", calls(1))
    result = invoke("coverage", file, package, "--target", "cuda")
    words = "--target: cuda: the package has executables for cpu:x86-64-v3:1\n"
    assert (result.exit_code, result.stderr) == (2, f"aotbuild coverage: error: {words}")
    (tmp_path / "counters.json").write_text('{"calls": {}}')
    result = invoke("coverage", tmp_path / "counters.json", tmp_path / "aot.yaml")
    assert result.exit_code == 2
    assert "which only a package can be compared with" in result.stderr


def test_an_empty_recording(tmp_path: Path, package: Path) -> None:
    file = written(tmp_path / "calls.jsonl", Recording())
    output = run("coverage", file, package, "--fail-under", "100").stdout
    assert "no call of a jitted function was recorded" in output


def test_a_call_that_was_never_counted_is_called(tmp_path: Path, package: Path) -> None:
    # A program that is killed has written the signature, and not yet the tally.
    found = calls(1)
    found.tallies.clear()
    file = written(tmp_path / "calls.jsonl", found)
    document = json.loads(run("coverage", file, package, "--json").stdout)
    assert [each["label"] for each in document["unused"]] == ["batch=8"]


def test_a_signature_that_was_only_compiled(tmp_path: Path, package: Path) -> None:
    found = calls(1)
    found.tallies.update({key: Tally(0, 1, 0.0, 0.0, 2.0) for key in found.calls})
    document = json.loads(
        run("coverage", written(tmp_path / "c.jsonl", found), package, "--json").stdout
    )
    assert document["covered"]["seconds"] == {"covered": 2.0, "total": 2.0, "percent": 100.0}
