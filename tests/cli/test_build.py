"""`aotbuild build`: a whole `_aot` folder, or a clear error and nothing."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import Result, invoke
from support.processes import ROOT
from support.projects import write_project

from aotbuild.format.index import MAGIC, Index, write_index

pytestmark = pytest.mark.process

MANIFEST = """\
version: 1
package: proj
targets: [cpu, {portable: {platforms: [cpu]}}]
functions:
  scale:
    call: proj.code:scale
    args: [{x: "f32[batch]"}]
    dims: {batch: [2]}
    static: {k: [3]}
"""
CODE = """\
import jax.numpy as jnp


def scale(x, k):
    return jnp.sin(x) * k


def fails(x, k):
    raise ValueError("no")


def slow(x, k):
    import os, pathlib, time
    pathlib.Path(os.environ["STARTED"]).write_text(str(os.getpid()))
    time.sleep(600)
"""
# Processes that a shell put into the background ignore SIGINT, and so do their children.
INTERRUPTIBLE = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from aotbuild.cli.__main__ import main
main()
"""
FOLDER = Path("build", "aot", "proj", "_aot")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = write_project(tmp_path / "here", MANIFEST, code=CODE)
    monkeypatch.chdir(root)
    return root


def build(*args: str) -> Result:
    return invoke("build", *args)


def edit(project: Path, old: str, new: str) -> None:
    manifest = project / "aot.yaml"
    manifest.write_text(manifest.read_text().replace(old, new))


def functions(folder: Path) -> list[str]:
    return [f.name for f in Index.open((folder / "index").read_bytes(), "index").functions()]


def test_the_default_folder_and_the_summary(project: Path) -> None:
    result = build()
    assert result.exit_code == 0, result.output
    assert functions(FOLDER) == ["scale"]
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["FUNCTION", "SIGNATURE", "TARGET", "SIZE", "FLOPS"]
    assert lines[1].startswith("scale     batch=2, k=3  cpu:")
    assert lines[2].startswith("scale     batch=2, k=3  portable:cpu:1")
    assert lines[4].startswith("2 units: ")
    assert lines[5].startswith("2 executables, ")
    assert lines[6] == f"written to {FOLDER}"
    finished = [line[:6] for line in result.stderr.splitlines() if line.startswith("[")]
    assert sorted(finished) == ["[1/2] ", "[2/2] "]


def test_the_document(project: Path) -> None:
    result = build("--json", "--out", "out/_aot")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["error"] is None
    assert document["folder"] == "out/_aot"
    files = [path for path in Path("out").rglob("*") if path.is_file()]
    assert document["size"] == sum(path.stat().st_size for path in files)
    native, portable = document["units"]
    assert (native["function"], native["kind"], native["state"]) == ("scale", "pjrt", "done")
    assert native["analysis"]["output_bytes"] == 8
    assert portable["kind"] == "stablehlo"
    for unit in document["units"]:
        blob = Path("out/_aot/blobs", f"{unit['sha256']}.{unit['kind']}")
        assert blob.stat().st_size == unit["size"]
        assert unit["seconds"] >= 0


def test_in_place(project: Path) -> None:
    result = build("--in-place")
    assert result.exit_code == 0, result.output
    assert functions(project / "proj" / "_aot") == ["scale"]


def test_in_place_and_out_exclude_each_other(project: Path) -> None:
    result = build("--in-place", "--out", "x")
    assert result.exit_code == 2
    assert "--out and --in-place exclude each other" in result.stderr


def test_an_earlier_build_is_replaced(project: Path) -> None:
    (project / FOLDER / "blobs").mkdir(parents=True)
    old = FOLDER / "blobs" / f"{'0' * 64}.pjrt"
    (project / old).touch()
    (project / FOLDER / "index").write_bytes(MAGIC)
    assert build().exit_code == 0
    assert functions(FOLDER) == ["scale"]
    assert not old.exists()


@pytest.mark.parametrize("out", [".", "proj"])
def test_a_folder_of_other_things_is_never_replaced(project: Path, out: str) -> None:
    result = build("--out", out)
    assert result.exit_code == 2
    assert "would be replaced, but it is not an _aot folder" in result.stderr
    assert (project / "proj" / "code.py").exists()


def test_failures_are_printed_in_full_and_nothing_is_written(project: Path) -> None:
    edit(project, "proj.code:scale", "proj.code:fails")
    result = build()
    assert (result.exit_code, result.stdout) == (4, "")
    assert "[2/2] failed: scale(batch=2, k=3) for portable:cpu:1\n" in result.stderr
    assert "2 of 2 build units failed, nothing was packaged:" in result.stderr
    assert "Traceback" not in result.stderr
    assert [path for path in Path("build").rglob("*") if path.is_file()] == []


def test_failures_as_a_document(project: Path) -> None:
    edit(project, "proj.code:scale", "proj.code:fails")
    result = build("--json")
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    assert [unit["state"] for unit in document["units"]] == ["failed", "failed"]
    assert document["failures"][0]["unit"] == document["units"][0]["label"]
    assert document["failures"] == document["error"]["failures"]


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 130, "interrupted")],
)
def test_ended_while_compiling(
    project: Path, tmp_path: Path, number: signal.Signals, code: int, word: str
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    edit(project, "proj.code:scale", "proj.code:slow")
    started = tmp_path / "started"
    os.mkfifo(started)
    reader = os.open(started, os.O_RDONLY | os.O_NONBLOCK)
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "build"],
        env={
            **os.environ,
            "STARTED": str(started),
            "PYTHONPATH": _path(),
            "TMPDIR": str(temporary),
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert select.select([reader], [], [], 300)[0], "the function was never traced"
        worker = int(os.read(reader, 100))
        process.send_signal(number)
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
        os.close(reader)
    assert process.returncode == code
    assert errors.splitlines()[-1] == f"{word}; nothing is half-written"
    # The fork that ran it was killed; nobody may have asked for its exit code yet.
    status = Path(f"/proc/{worker}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"
    assert [path for path in Path("build").rglob("*") if path.is_file()] == []
    assert [*temporary.iterdir()] == []


def _path() -> str:
    return os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])


@pytest.fixture(scope="module")
def in_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was built in place."""
    root = write_project(tmp_path_factory.mktemp("check") / "here", MANIFEST, code=CODE)
    result = invoke("build", root / "aot.yaml", "--in-place")
    assert result.exit_code == 0, result.output
    return root


class TestCheck:
    """`--check` says whether a build is needed; it compiles nothing."""

    @pytest.fixture
    def built(self, in_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        root = Path(shutil.copytree(in_place, tmp_path / "here"))
        monkeypatch.chdir(root)
        monkeypatch.setattr("aotbuild.build.worker_process.Worker._start", None)  # it would compile
        return root

    def reasons(self, *options: str, code: int = 5) -> list[str]:
        result = invoke("build", "--check", "--json", *(options or ("--in-place",)))
        assert result.exit_code == code, result.output
        document = json.loads(result.stdout)
        assert document["up_to_date"] is not document["reasons"]
        found: list[str] = document["reasons"]
        return found

    def test_what_was_built_is_up_to_date(self, built: Path) -> None:
        assert self.reasons(code=0) == []
        result = invoke("build", "--check", "--in-place")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == f"{built / 'proj' / '_aot'} is up to date\n"

    def test_nothing_is_built(self, built: Path) -> None:
        assert self.reasons("--out", "elsewhere/_aot") == ["elsewhere/_aot: nothing is built"]
        assert not (built / "elsewhere").exists()
        assert self.reasons("--root", ".") == [f"{FOLDER}: nothing is built"]

    def test_an_edited_module(self, built: Path) -> None:
        (built / "proj" / "code.py").write_text(CODE + "# edited")
        assert self.reasons() == ["proj/code.py: changed since it was compiled"]
        result = invoke("build", "--check", "--in-place")
        assert result.exit_code == 5
        assert result.stdout.endswith("_aot is out of date: build it again\n")

    def test_a_module_that_is_gone(self, built: Path) -> None:
        (built / "proj" / "__init__.py").unlink()
        assert self.reasons() == ["proj/__init__.py: is missing since it was compiled"]

    def test_an_edited_manifest(self, built: Path) -> None:
        manifest = built / "aot.yaml"
        manifest.write_text(MANIFEST.replace("scale:", "other:", 1))
        assert self.reasons()[0] == "aot.yaml: changed since it was compiled"
        assert any(reason.startswith("not built: other for cpu:") for reason in self.reasons())
        assert any("not in the manifest: scale for cpu:" in reason for reason in self.reasons())

    def test_a_module_that_no_function_imports(self, built: Path) -> None:
        (built / "proj" / "new.py").write_text("")
        assert self.reasons(code=0) == []

    def test_another_jax(self, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        index = built / "proj" / "_aot" / "index"
        opened = Index.open(index.read_bytes(), "index")
        functions = list(opened.functions())
        records = [record for f in functions for record in opened.records(f.name)]
        header = {**opened.header, "jax": "0.1.0"}
        index.write_bytes(write_index(header, functions, records))
        (reason,) = self.reasons()
        assert reason.startswith("jax: expected ")
        assert reason.endswith(", found 0.1.0")

    def test_a_damaged_index(self, built: Path) -> None:
        (built / "proj" / "_aot" / "index").write_text("nothing")
        assert "the index is damaged" in self.reasons()[0]
