"""The group: help, what is missing, and errors that become messages and exit codes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import Result, invoke


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException, *args: str) -> Result:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("aotbuild.build.project.open_project", refuse)
    return invoke("plan", *args)


def run_main(before: str, *args: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; {before}; sys.argv[1:] = {list(args)!r}\n"
    code += "from aotbuild.cli.__main__ import main; main()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("package", ["pydantic", "packaging"])
@pytest.mark.process
def test_a_missing_extra_is_one_line(package: str, tmp_path: Path) -> None:
    manifest = tmp_path / "aot.yaml"
    manifest.touch()
    done = run_main(f"sys.modules[{package!r}] = None", "build", str(manifest))
    assert (done.returncode, done.stdout) == (2, "")
    expected = f"aotbuild: this command needs {package}, which is not installed; "
    assert done.stderr == f"{expected}install aotbuild[build]\n"


@pytest.mark.process
def test_starting_is_light() -> None:
    show = "import atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    done = run_main(show, "--help")
    assert done.returncode == 0
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "argparse" in loaded
    assert not loaded & {"jax", "jaxlib", "numpy", "pydantic", "yaml", "rich"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [
        (["--help"], "stdout", 0),
        (["plan", "--no-such-option"], "stderr", 2),
        (["plan", "gone.yaml", "--json"], "stdout", 3),
    ],
)
def test_a_reader_that_has_left(arguments: list[str], closed: str, code: int) -> None:
    """The command ends as ever, and Python does not complain about the pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writing}
    command = [sys.executable, "-m", "aotbuild", *arguments]
    done = subprocess.run(command, text=True, check=False, **streams)
    os.close(writing)
    assert done.returncode == code
    assert "pipe" not in f"{done.stdout}{done.stderr}".lower()
    assert "Traceback" not in f"{done.stdout}{done.stderr}"


def test_an_unexpected_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fail_with(monkeypatch, ValueError("odd"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "unexpected error, please report it: ValueError: odd\n"
        "AOTBUILD_DEBUG=1 shows where it happened.\n"
    )


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fail_with(monkeypatch, KeyboardInterrupt())
    assert (result.exit_code, result.stderr) == (130, "interrupted; nothing is half-written\n")


def test_files(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fail_with(monkeypatch, PermissionError(errno.EACCES, "Permission denied", "/a/b"))
    assert (result.exit_code, result.stderr) == (6, "/a/b: Permission denied\n")


def test_with_json_an_error_is_a_document(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("plan", "--json")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert document["version"] == 1
    assert document["error"]["type"] == "ManifestError"
    assert document["error"]["problems"][0]["file"] == "aot.yaml"
    assert result.stderr == document["error"]["message"] + "\n"


def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    result = fail_with(monkeypatch, MemoryError())
    assert result.exit_code == 6
    assert result.stderr.startswith("out of memory: ")
