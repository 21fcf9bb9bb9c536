"""`aotbuild diff --gate` and `--markdown`: the exit code, the document, and what is measured."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.cli import run
from support.reports import HEADER, make_function, make_record, write_package

from aotbuild.cli.exit_codes import GATE, PACKAGE
from aotbuild.verify import cold_start
from aotbuild.verify.cold_start import Chosen, Measured

GATES = "size=+5%,coverage=0"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    records = [make_record(data=b"x" * 10_000), make_record(batch=8)]
    return write_package(tmp_path / "old", [make_function()], records)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    records = [make_record(data=b"x" * 20_000)]
    return write_package(tmp_path / "new", [make_function()], records)


def slow_down(monkeypatch: pytest.MonkeyPatch, *answers: float) -> list[int]:
    """Let the new package take so many times as long in each measurement; return their runs."""
    asked: list[int] = []

    def measure(chosen: Chosen, runs: int) -> Measured:
        asked.append(runs)
        times = [10.0] * runs, [10.0 * answers[len(asked) - 1]] * runs
        return Measured({"f": times}, chosen.skipped)

    chosen = Chosen({}, {"g": "it calls back into Python, which is not run"})
    monkeypatch.setattr(cold_start, "choose", lambda *_: chosen)
    monkeypatch.setattr(cold_start, "measure", measure)
    return asked


def test_gates_that_fail(old: Path, new: Path) -> None:
    result = run("diff", old, new, "--gate", GATES, code=GATE)
    assert GATE == 13
    identities, table, reasons, rest = result.stdout.split("\n\n", 3)
    assert [line.split()[0] for line in table.splitlines()] == ["GATE", "size", "coverage"]
    size, *others = reasons.splitlines()
    assert re.fullmatch(r"size: 1\S+ kB → 2\S+ kB \(\+7\d\.\d%\), more than \+5%", size)
    assert others == [
        "coverage: 1 executable lost, more than 0",
        "lost: f(batch=8) for cpu:x86-64-v3:1",
    ]
    assert f"{identities}\n\n{rest}" == run("diff", old, new).stdout
    assert run("diff", old, new, "--exit-code", "--gate", GATES, code=GATE)


def test_gates_that_pass(old: Path, new: Path) -> None:
    lines = run("diff", old, old, "--gate", GATES).stdout.splitlines()
    # No reasons: one empty line after the table.
    assert [line.split()[0] if line else "" for line in lines[3:]] == [
        *("GATE", "size", "coverage", "", "no"),
    ]
    run("diff", old, new, "--gate", "size=+100%,coverage=1")
    run("diff", old, new, "--gate", "size=+100%", "--exit-code", code=1)


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
    result = run("diff", old, new, "--gate", GATES, code=PACKAGE)
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


def test_the_document(old: Path, new: Path) -> None:
    document = json.loads(run("diff", old, new, "--gate", GATES, "--json", code=GATE).stdout)
    assert (document["version"], document["error"], document["different"]) == (1, None, True)
    size, coverage = document["gates"]
    assert coverage == {
        "gate": "coverage", "limit": "0", "passed": False, "old": 2, "new": 1,
        "reason": "coverage: 1 executable lost, more than 0",
        "details": ["lost: f(batch=8) for cpu:x86-64-v3:1"],
    }  # fmt: skip
    assert size["new"] > size["old"] > 10_000
    assert json.loads(run("diff", old, new, "--json").stdout)["gates"] == []


def test_wrong_usage(old: Path, new: Path) -> None:
    result = run("diff", old, new, "--gate", "size=5%", code=2)
    hint = "found '5%' (did you mean 'size=+5%'?)\n"
    assert f"argument --gate: size: expected +N%, as +5%, {hint}" in result.stderr
    result = run("diff", old, new, "--gate", "cold-start=10", code=2)
    assert "(did you mean 'cold-start=+10%'?)" in result.stderr
    for gate in ("coverage=٣", "size=+٥%", f"coverage={'9' * 400}"):
        assert "size: " in (text := run("diff", old, new, "--gate", gate, code=2).stderr) or (
            "coverage: expected a whole number, as 0, found " in text
        )
    result = run("diff", old, new, "--json", "--markdown", code=2)
    assert "--json and --markdown exclude each other" in result.stderr


def test_markdown(old: Path, new: Path) -> None:
    result = run("diff", old, new, "--gate", GATES, "--markdown", code=GATE)
    mark, title, empty, *identities, headers = result.stdout.splitlines()[:9]
    rest = result.stdout.splitlines()[9:]
    assert (mark, empty) == ("<!-- aotbuild diff -->", "")
    assert [line.partition(" (")[0] for line in identities] == [
        *("```text", "old: old/_aot", "new: new/_aot", "```", ""),
    ]
    assert title == "### pack: old/_aot → new/_aot"
    assert headers == "| gate | limit | old | new | change | result |"
    assert "| coverage | 0 | 2 | 1 | -1 +0 | failed |" in rest
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


def test_a_package_that_starts_more_slowly(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = slow_down(monkeypatch, 1.5, 1.4)
    result = run("diff", old, new, "--gate", "cold-start=+10%", code=GATE)
    assert runs == [6, 20]
    assert "cold-start  +10%   10.0 ms  14.0 ms  +40.0%  failed\n" in result.stdout
    assert "(+40.0%), more than +10% in 20 of 20 runs\n" in result.stdout
    assert "g: not measured: it calls back into Python, which is not run\n" in result.stdout


def test_what_was_slow_once_passes(old: Path, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = slow_down(monkeypatch, 1.5, 1.05)
    run("diff", old, new, "--gate", "cold-start=+10%")
    assert runs == [6, 20]


def test_what_is_fast_is_not_measured_for_long(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = slow_down(monkeypatch, 1.05)
    result = run("diff", old, new, "--gate", "cold-start=+10%", "--json")
    assert runs == [6]
    (gate,) = json.loads(result.stdout)["gates"]
    assert (gate["old"], gate["new"], gate["passed"]) == (10.0, 10.5, True)


def test_packages_are_only_run_for_cold_start(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(cold_start, "choose", refuse)
    run("diff", old, new, "--gate", GATES, code=GATE)
