"""`aotbuild schema`: the committed schema, on stdout or in a file."""

from __future__ import annotations

from pathlib import Path

from support.cli import invoke

COMMITTED = Path(__file__).parents[2] / "configs" / "aotbuild.schema.json"


def test_stdout_gets_the_committed_bytes() -> None:
    result = invoke("schema")
    assert result.exit_code == 0
    assert result.stdout_bytes == COMMITTED.read_bytes()


def test_a_file_gets_the_same(tmp_path: Path) -> None:
    out = tmp_path / "schema.json"
    out.write_text(invoke("schema").stdout + "older")
    result = invoke("schema", "--out", str(out))
    assert (result.exit_code, result.output) == (0, "")
    assert out.read_bytes() == COMMITTED.read_bytes()
    assert list(tmp_path.iterdir()) == [out]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    result = invoke("schema", "--out", str(tmp_path / "no" / "s.json"))
    assert result.exit_code == 6
    assert "No such file or directory" in result.stderr
