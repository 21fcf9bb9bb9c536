"""A recording of a real program, the manifest of it, its wheel's folder, and what the report finds.

What the report says is compared with what calls of the runtime do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.cli import run
from support.processes import clean_environment
from support.projects import write_project

import aotbuild
from aotbuild.errors import NoExecutable

MODEL = """
from functools import partial

import jax


@partial(jax.jit, static_argnames="activation")
def score(weights, x, activation="relu"):
    return getattr(jax.nn, activation)(x @ weights["w"] + weights["b"])
"""
PROGRAM = """
import numpy as np
from proj.model import score

weights = {"w": np.ones((4, 2), "float32"), "b": np.ones(2, "float32")}
for batch in (1, 8, 8, 3):
    score(weights, np.ones((batch, 4), "float32"))
score(weights, np.ones((8, 4), "float32"), activation="tanh")
"""


@dataclass(frozen=True)
class Recorded:
    root: Path
    manifest: Path
    recording: Path

    def folder(self, text: str) -> Path:
        """Build what a manifest says, and return the folder."""
        manifest = self.root / "edited.yaml"
        manifest.write_text(text)
        out = self.root / "out" / "_aot"
        run("build", manifest, "--out", out)
        return out


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    root = write_project(tmp_path_factory.mktemp("coverage"), "", model=MODEL)
    (root / "serve.py").write_text(PROGRAM)
    recording, manifest = root / "calls.jsonl", root / "aot.yaml"
    manifest.unlink()
    command = [sys.executable, "-m", "aotbuild", "record", "--recording", recording]
    environment = clean_environment(PYTHONPATH=str(root))
    subprocess.run(
        [*command, "--out", manifest, "--", sys.executable, "serve.py"],
        cwd=root,
        env=environment,
        check=True,
    )
    return Recorded(root, manifest, recording)


@pytest.mark.process
def test_what_is_taken_out_is_found_and_what_is_never_called(recorded: Recorded) -> None:
    text = recorded.manifest.read_text()
    assert "{batch: [1, 3, 8]}" in text
    whole = json.loads(run("coverage", recorded.recording, recorded.manifest, "--json").stdout)
    assert whole["covered"]["signatures"]["percent"] == 100
    assert whole["unused"] == []
    edited = recorded.folder(text.replace("{batch: [1, 3, 8]}", "{batch: [1, 8, 16]}"))
    result = run("coverage", recorded.recording, edited, "--fail-under", "100", "--json", code=15)
    document = json.loads(result.stdout)
    missing = [
        signature["signature"]
        for function in document["functions"]
        for signature in function["signatures"]
        if signature["state"] == "missing"
    ]
    assert missing == ["weights f32[2], f32[4,2], x f32[3,4]"]
    assert [each["label"] for each in document["unused"]] == ["batch=16"]
    _agrees(edited)


def _agrees(folder: Path) -> None:
    """Compare with what calls of the runtime do."""
    library = aotbuild.load(folder)
    weights = {"w": np.ones((4, 2), "float32"), "b": np.ones(2, "float32")}
    served = []
    for batch in (1, 3, 8):
        try:
            library.score(weights, np.ones((batch, 4), "float32"))
        except NoExecutable:
            continue
        served.append(batch)
    # The recording has it in an entry of its own, which is an overload of the first.
    library.score(weights, np.ones((8, 4), "float32"), activation="tanh")
    assert library.functions == ("score", "score_2")
    library.close()
    assert served == [1, 8]
