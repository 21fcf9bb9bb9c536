"""`aotbuild build`: a whole `_aot` folder, or a clear error and nothing."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, invoke, run
from support.processes import ROOT
from support.projects import write_project

import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.format.index import MAGIC, SOURCES, Index

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
# A module that loads what an earlier build left.
LOADS = """import aotbuild, contextlib
with contextlib.suppress(aotbuild.errors.NoArtifacts): aotbuild.load("proj")
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
    """What an earlier build left in the folder is replaced."""
    old = FOLDER / "blobs" / f"{'0' * 64}.pjrt"
    old.parent.mkdir(parents=True)
    old.touch()
    (FOLDER / "index").write_bytes(MAGIC)
    result = build()
    assert result.exit_code == 0, result.output
    assert functions(FOLDER) == ["scale"]
    assert not old.exists()
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["FUNCTION", "SIGNATURE", "TARGET", "SIZE", "FLOPS"]
    assert lines[1].startswith("scale     batch=2, k=3  cpu:")
    assert lines[2].startswith("scale     batch=2, k=3  portable:cpu:1")
    assert lines[4].startswith("2 units: ")
    assert lines[5].startswith("2 executables, ")
    assert lines[6] == f"written to {FOLDER}"
    finished = [line[:6] for line in result.stderr.splitlines() if line.startswith("[")]
    assert sorted(finished) == ["[1/2] ", "[2/2] "]


def test_the_document_and_the_page_of_timings(project: Path) -> None:
    result = build("--json", "--out", "out/_aot", "--timings", "timings.html")
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
        words = [step["doing"].partition(" ")[0] for step in unit["steps"]]
        assert words[-3:-1] == ["compiling", "computing"]
        assert "tracing" in words
        assert all(step["start"] <= step["end"] for step in unit["steps"])
    assert 'title="tracing scale(batch=2, k=3)' in Path("timings.html").read_text("utf-8")


def test_options_that_are_refused(project: Path) -> None:
    both, slip = build("--in-place", "--out", "x"), build("--timings", "aot.yaml")
    assert (both.exit_code, slip.exit_code) == (2, 2)
    assert "--out and --in-place exclude each other" in both.stderr
    assert "--timings: aot.yaml exists, and would be overwritten" in slip.stderr


def test_edited_sources_of_what_was_built_in_place(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.setenv("AOTBUILD_STORE", str(project.parent / "store"))
    home, helper, x = project / "proj", project / "proj_helper.py", np.ones(2, "float32")
    helper.write_text(LOADS)
    edit(project, "    args:", "    imports: [proj_helper]\n    args:")
    for again, where in ((False, ["--in-place"]), (True, ["--out", home / "_aot"])):
        document = json.loads(build(*where, "--json").stdout)
        assert document["origins"]["recalled"] is again
        stated = Index.open((home / "_aot" / "index").read_bytes(), "index").header[SOURCES]
        assert sorted(stated) == ["../proj_helper.py", "__init__.py", "code.py"]
    for arrays in ("jax", "numpy"):
        scaled = aotbuild.load(home, arrays=arrays).scale(x, 3)
        np.testing.assert_allclose(scaled, np.sin(x) * 3, rtol=1e-6)
    assert "sources   3 modules" in run("inspect", home).stdout
    assert "sources" in run("verify", "--no-run", home).stdout
    for path, name in ((home / "code.py", "code.py"), (helper, "../proj_helper.py")):
        text = path.read_text()
        path.write_text(f"{text}# edited\n")
        says = f"changed since: {name}\nRun `aotbuild build --in-place` again; or remove {home}/"
        for arrays in ("jax", "numpy"):
            with pytest.raises(AotbuildError, match=re.escape(says)):
                aotbuild.load(home, arrays=arrays)
        for command, code in (("verify", 5), ("doctor", 6)):
            assert says.partition("\n")[0] in run(command, home, code=code).output
        assert build("--in-place").exit_code == 0
        assert aotbuild.load(home).functions == ("scale",)
    (home / "_aot").rename(project / "moved")
    assert aotbuild.load(project / "moved").functions == ("scale",)
    assert build().exit_code == 0
    assert SOURCES not in Index.open((FOLDER / "index").read_bytes(), "index").header


def test_failures_are_printed_in_full_and_nothing_is_written(project: Path) -> None:
    edit(project, "proj.code:scale", "proj.code:fails")
    result = build()
    assert (result.exit_code, result.stdout) == (4, "")
    assert "[2/2] failed: scale(batch=2, k=3) for portable:cpu:1\n" in result.stderr
    assert "2 of 2 build units failed, nothing was packaged:" in result.stderr
    assert "Traceback" not in result.stderr
    assert [path for path in Path("build").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_while_compiling(project: Path, tmp_path: Path, number: signal.Signals) -> None:
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
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
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
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "interrupted; nothing is half-written"
    # The fork that ran it was killed; nobody may have asked for its exit code yet.
    status = Path(f"/proc/{worker}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"
    assert [path for path in Path("build").rglob("*") if path.is_file()] == []
    assert [*temporary.iterdir()] == []
