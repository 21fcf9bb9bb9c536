"""What GitHub Actions gets: annotations at the right lines, escaped, and the summary of a job."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.cli import invoke, run
from support.reports import make_function, make_record, write_package

from aotbuild.cli.exit_codes import MANIFEST, PACKAGE, USAGE, VERIFY
from aotbuild.cli.github import Annotation, commands, of_failures
from aotbuild.errors import UnitFailure

MANIFEST_TEXT = """\
version: 1
package: proj

functions:
  score:
    call: proj.model:score
    args: [{x: "f32[2]"}]
"""


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the job's summary, with GitHub Actions around this process."""
    file = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    return file


@pytest.fixture
def packages(tmp_path: Path) -> tuple[Path, Path]:
    both = [make_record(), make_record(batch=8)]
    old = write_package(tmp_path / "old", [make_function()], both)
    return old, write_package(tmp_path / "new", [make_function()], both[:1])


def annotations(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("::")]


def failure(unit: str, message: str) -> UnitFailure:
    return UnitFailure(unit, "trace", message)


def test_every_problem_of_a_manifest_has_its_line(summary: Path, tmp_path: Path) -> None:
    file = tmp_path / "project, 1" / "aot.yaml"
    file.parent.mkdir()
    file.write_text(MANIFEST_TEXT.replace("call:", "cal:") + "colour: red\n")
    result = run("build", file, "--json", code=MANIFEST)
    where = "title=aotbuild build,file=project%2C 1/aot.yaml"
    missing, unknown, colour = annotations(result.stderr)
    assert missing.startswith(f"::error {where},line=6,col=5::functions.score: the key 'call' is m")
    assert unknown.startswith(f"::error {where},line=6,col=5::functions.score: unknown key 'cal'")
    assert colour.startswith(f"::error {where},line=8,col=1::unknown key 'colour'")
    # stdout has the document alone.
    assert json.loads(result.stdout)["error"]["code"] == MANIFEST
    assert summary.read_text().startswith("### aotbuild build\n\n```text\n")
    assert "unknown key 'colour'" in summary.read_text()


def test_elsewhere_there_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: tuple[Path, Path]
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    result = run("diff", *packages)
    assert annotations(result.output) == []
    assert not (tmp_path / "summary.md").exists()


def test_the_summary_of_a_difference(summary: Path, packages: tuple[Path, Path]) -> None:
    summary.write_text("# what was there\n")
    result = run("diff", *packages)
    assert annotations(result.stderr) == []
    text = summary.read_text()
    assert text.startswith("# what was there\n### aotbuild diff\n\n```text\nold: old/_aot (index ")
    assert "\n- signature f(batch=8)\n" in text


def test_other_errors(summary: Path, tmp_path: Path) -> None:
    result = invoke("inspect", tmp_path / "gone.whl")
    assert result.exit_code == PACKAGE
    assert annotations(result.stderr)[0].startswith("::error title=aotbuild inspect::")
    # The results of `inspect` are no news of a job.
    assert not summary.exists()
    manifest = tmp_path / "aot.yaml"
    manifest.write_text(MANIFEST_TEXT)
    (line,) = annotations(invoke("plan", manifest).stderr)
    assert line.startswith("::error title=aotbuild plan,file=aot.yaml::package 'proj' ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "--jobs", "none"], "argument --jobs: expected a whole number, at least 1, f"),
        (["build", "--in-place", "--out", "x"], "--out and --in-place exclude each other"),
        (["verify"], "the following arguments are required: PLACE"),
    ],
)
def test_wrong_usage(summary: Path, arguments: list[str], message: str) -> None:
    (line,) = annotations(run(*arguments, code=USAGE).stderr)
    assert line.startswith(f"::error title=aotbuild {arguments[0]}::{message}")
    title, *_, text = summary.read_text().split("\n", 3)
    assert title == f"### aotbuild {arguments[0]}"
    assert text.startswith(message)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "a\n::error::b.yaml"],
        ["inspect", "a\n ::error::b.whl"],
        ["record", "--", "a\r::error::b"],
        ["plan", "--a\n::error::b"],
        ["build", "--jobs", "a\n::error::b"],
    ],
)
def test_names_with_line_breaks_make_no_commands(summary: Path, arguments: list[str]) -> None:
    """Neither in the plain error, which is beside the command of aotbuild itself."""
    lines = re.split("[\r\n]+", invoke(*arguments).stderr)
    found = [line for line in lines if line.lstrip().startswith("::")]
    assert [line[: line.index("=")] for line in found] == ["::error title"]


def test_a_package_that_fails_a_check(summary: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "pack-1-py3-none-any.whl"
    wheel.write_bytes(b"no wheel")
    result = run("verify", wheel, code=VERIFY)
    (line,) = annotations(result.stderr)
    assert line.startswith("::error title=aotbuild verify::")
    assert wheel.name in line
    assert summary.read_text().startswith("### aotbuild verify\n")


def test_a_summary_that_cannot_be_written_fails_nothing(
    tmp_path: Path, packages: tuple[Path, Path], summary: Path
) -> None:
    summary.mkdir()
    result = run("diff", *packages)
    assert result.stderr == f"{summary}: Is a directory; the job has no summary of this\n"


def test_units_that_fail_at_one_line_have_one_annotation(tmp_path: Path) -> None:
    manifest, model = tmp_path / "aot.yaml", tmp_path / "mo del.py"
    manifest.write_text(MANIFEST_TEXT)
    model.touch()
    outer = f"raised\n  at {model}:3 in score\n    x\n"
    inner = f"  at {model}:8 in helper\n    y\nThe error was at {tmp_path}/gone.py:1 in f\n"
    found = of_failures(
        "error",
        [
            failure("score(batch=1) for cpu", outer + inner),
            failure("other(batch=1) for cpu", inner),
            failure("score(batch=8) for cpu", "out of memory"),
            failure("score(batch=9) for cpu", "out of memory"),
            failure("unknown for cpu", "killed"),
            failure("score(batch=7) for cpu", "functions.score.call: proj.model:score: gone"),
        ],
        manifest,
    )
    assert [(each.file, each.line, each.column) for each in found] == [
        (str(model), 8, 0), (str(manifest), 5, 3), (str(manifest), 0, 0), (str(manifest), 6, 11),
    ]  # fmt: skip
    assert found[0].message.startswith("score(batch=1) for cpu and 1 more: trace: raised\n")
    assert found[1].message == "score(batch=8) for cpu and 1 more: trace: out of memory"


def test_what_breaks_a_line_is_escaped() -> None:
    found = Annotation("error", "100%\r\n::set-env name=A::b", "a,b:c%.py", 3)
    assert list(commands([found], "x,y", {})) == [
        "::error title=x%2Cy,file=a%2Cb%3Ac%25.py,line=3::100%25%0D%0A::set-env name=A::b"
    ]


def test_files_outside_of_the_checkout_are_not_named(tmp_path: Path) -> None:
    found = Annotation("error", "m", "/usr/x.py", 3, 4)
    (line,) = commands([found], "t", {"GITHUB_WORKSPACE": str(tmp_path)})
    assert line == "::error title=t::m"


@pytest.mark.parametrize("project", [".", "libraries/one"])
def test_files_of_a_source_distribution_are_those_of_the_checkout(
    tmp_path: Path, project: str
) -> None:
    unpacked, checkout = tmp_path / "pip-req-build-x", tmp_path / "repo" / project
    for root in (unpacked, checkout):
        (root / "src").mkdir(parents=True)
        (root / "pyproject.toml").write_text("[project]\n")
        (root / "src" / "m.py").write_text("x = 1\n")
    (unpacked / "PKG-INFO").touch()
    found = Annotation("error", "m", str(unpacked / "src" / "m.py"), 1)
    variables = {"GITHUB_WORKSPACE": str(tmp_path / "repo")}
    place = "src/m.py" if project == "." else f"{project}/src/m.py"
    assert list(commands([found], "t", variables)) == [f"::error title=t,file={place},line=1::m"]
    # An edited file has other lines.
    (checkout / "src" / "m.py").write_text("\nx = 1\n")
    assert list(commands([found], "t", variables)) == ["::error title=t::m"]


def test_what_github_does_not_show_is_counted() -> None:
    many = [Annotation("error", str(number)) for number in range(12)]
    lines = list(commands([*many, Annotation("warning", "w")], "t", {}))
    assert len(lines) == 11
    assert lines[8:] == [
        "::error title=t::8",
        "::error title=t::3 more: see the log of this step",
        "::warning title=t::w",
    ]
