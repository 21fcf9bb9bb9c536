"""`aotbuild.record`: from a with block to a manifest or a recording."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import watched_functions as functions
from support.forks import forked

import aotbuild
from aotbuild.errors import AotbuildError, ManifestError
from aotbuild.manifest import load_manifest
from aotbuild.record.recorded import NothingToCompile
from aotbuild.record.recording import read_recording

X = np.ones((2, 4), np.float32)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def temporary() -> list[str]:
    return [path.name for path in Path(tempfile.gettempdir()).iterdir()]


def test_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    with aotbuild.record("aot.yaml") as record:
        functions.plain(X)
        monkeypatch.chdir("/")  # of the program
    assert record.proposal
    assert record.path.name == "aot.yaml"
    (function,) = load_manifest(record.path).functions.values()
    assert function.call == "support.watched_functions:plain"
    assert temporary() == []


def test_it_is_extended() -> None:
    for size in (2, 3):
        with aotbuild.record("aot.yaml"):
            functions.plain(X[:, :size])
    (function,) = load_manifest(Path("aot.yaml")).functions.values()
    assert function.dims == {"x_1": (2, 3)}


def test_a_recording_is_appended_to() -> None:
    for _ in range(2):
        record = aotbuild.record("calls.jsonl").start()
        functions.plain(X)
        record.stop()
        record.stop()
    assert record.proposal is None
    found = read_recording(Path("calls.jsonl"))
    assert found.tally(found.calls).calls == 2


def test_the_body_raises() -> None:
    with pytest.raises(KeyError) as caught, aotbuild.record("aot.yaml"):
        {}[functions.plain(X).shape]
    assert not hasattr(caught.value, "__notes__")
    assert len(load_manifest(Path("aot.yaml")).functions) == 1


def test_the_body_raises_and_there_is_nothing_to_write() -> None:
    with pytest.raises(KeyError) as caught, aotbuild.record("aot.yaml"):
        {}["name"]
    (note,) = caught.value.__notes__
    assert note.startswith("aotbuild.record: ")
    assert "no manifest can have what was recorded" in note
    assert not Path("aot.yaml").exists()


def test_nothing_was_called() -> None:
    with pytest.raises(NothingToCompile), aotbuild.record("aot.yaml"):
        pass


def test_a_manifest_that_is_not_valid() -> None:
    Path("aot.yaml").write_text("version: 1\nfunctions: [what]\n")
    with pytest.raises(ManifestError) as caught, aotbuild.record("aot.yaml"):
        functions.plain(X)
    (name,) = temporary()
    kept = Path(tempfile.gettempdir(), name)
    note = f"The recording is kept for `aotbuild record --from {kept}`."
    assert caught.value.__notes__ == [note]
    assert len(read_recording(kept).calls) == 1


def test_what_is_wrong_is_told_at_the_beginning() -> None:
    with pytest.raises(AotbuildError, match="there is no folder"):
        aotbuild.record("missing/aot.yaml").start()
    with aotbuild.record("calls.jsonl"), pytest.raises(AotbuildError, match="recorded already"):
        aotbuild.record("aot.yaml").start()
    assert temporary() == []


@pytest.mark.process
def test_forks(tmp_path: Path) -> None:
    """A child that ends as programs do leaves the manifest to its parent."""
    done: dict[str, Any] = forked(FORKS, path=tmp_path)
    assert done == {"child": [0, 0], "manifest": False}
    functions = load_manifest(tmp_path / "aot.yaml").functions
    assert functions["plain"].dims == {"batch": (1, 2, 3)}


FORKS = """
import atexit, json, multiprocessing, os, sys, warnings
import numpy as np
import aotbuild
from support import watched_functions as functions

warnings.simplefilter("ignore")
call = lambda size: functions.plain(np.ones((size, 4), np.float32))
with aotbuild.record("aot.yaml"):
    if not (child := os.fork()):
        call(1)
        atexit._run_exitfuncs()
        os._exit(0)
    ended = [os.waitpid(child, 0)[1]]
    process = multiprocessing.get_context("fork").Process(target=call, args=(2,))
    process.start()
    process.join()
    ended.append(process.exitcode)
    was_there = os.path.exists("aot.yaml")
    call(3)
print(json.dumps({"child": ended, "manifest": was_there}))
"""
