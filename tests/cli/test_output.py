"""Text, tables and documents: plain where no terminal is."""

from __future__ import annotations

import pytest

from aotbuild.cli.exit_codes import code_of
from aotbuild.cli.output import Output
from aotbuild.errors import AotbuildError, BuildError, ManifestError, PlanError


def test_a_terminal_gets_brackets_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    Output().table(["spec"], [["f32[red]"]])
    out = capsys.readouterr().out
    assert "f32[red]" in out
    assert "\x1b[1m" in out


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
