"""Text, tables and documents: plain where no terminal is."""

from __future__ import annotations

import json

import pytest

from aotbuild.cli.exit_codes import code_of
from aotbuild.cli.output import Output, error_document
from aotbuild.errors import (
    AotbuildError,
    BuildError,
    ManifestError,
    PlanError,
    Problem,
    UnitFailure,
)


def test_a_terminal_gets_brackets_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    Output().table(["spec"], [["f32[red]"]])
    out = capsys.readouterr().out
    assert "f32[red]" in out
    assert "\x1b[1m" in out


def test_json_takes_the_place_of_everything_else(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True, document={"units": []})
    output.table(["a"], [["b"]])
    output.text("hello")
    output.finish(None)
    assert json.loads(capsys.readouterr().out) == {"version": 1, "error": None, "units": []}


def test_errors_as_data() -> None:
    problem = Problem("aot.yaml", 1, 2, "functions", "missing")
    assert error_document(ManifestError([problem]), 3, "text") == {
        "code": 3,
        "type": "ManifestError",
        "message": "text",
        "problems": [
            {
                "file": "aot.yaml",
                "line": 1,
                "column": 2,
                "path": "functions",
                "message": "missing",
            }
        ],
    }
    failure = UnitFailure("f()", "trace", "no")
    assert error_document(BuildError([failure], 1), 5, "text")["failures"] == [
        {"unit": "f()", "stage": "trace", "message": "no"}
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("x"), 1),
        (AotbuildError("x"), 6),
        (ManifestError([]), 3),
        (PlanError("x"), 3),
        (BuildError([], 0), 4),
        (PermissionError("x"), 6),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes_never_change(error: BaseException, code: int) -> None:
    assert code_of(error) == code
