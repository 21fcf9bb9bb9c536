"""The Dockerfile: its steps, with a folder and a plain environment for each of its stages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import jaxlib
import numpy as np
import pytest
from support.installs import make_venv
from support.processes import clean_environment
from support.recipes import Recipe, expected_scores, free_port, has_module

pytestmark = pytest.mark.recipes

# Absolute paths of the Dockerfile, which are below the stage's folder here.
PATHS = re.compile(r"(?<![\w./])/(?=(?:app|src|wheels)\b)")


@dataclass
class Stage:
    """A stage: the folder that stands for its root, and the Python of its base image."""

    root: Path
    python: Path
    links: Path
    workdir: str = "/"

    def here(self, text: str) -> str:
        """Return a text with the paths of the stage as they are on this machine."""
        return PATHS.sub(f"{self.root}/", text)

    def path(self, text: str) -> Path:
        return self.root / text.lstrip("/")

    def run(self, command: str) -> None:
        path = os.pathsep.join([str(self.python.parent), os.environ["PATH"]])
        found = [self.links.as_uri(), *os.environ.get("PIP_FIND_LINKS", "").split()]
        env = clean_environment(PATH=path, HOME=str(self.root), PIP_FIND_LINKS=" ".join(found))
        folder = self.path(self.workdir)
        done = subprocess.run(
            self.here(command), shell=True, cwd=folder, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


class Image:
    """What the steps of a Dockerfile make. A step that is not known here fails."""

    def __init__(self, dockerfile: str, folder: Path, context: Path, links: Path) -> None:
        self.folder, self.context, self.links = folder, context, links
        self.stages: dict[str, Stage] = {}
        self.command: list[str] = []
        for line in filter(None, dockerfile.splitlines()):
            step, _, rest = line.partition(" ")
            getattr(self, f"do_{step.lower()}")(rest)

    @property
    def stage(self) -> Stage:
        return list(self.stages.values())[-1]

    def do_from(self, rest: str) -> None:
        image, _, name = rest.partition(" AS ")
        assert image.startswith("python:")
        root = self.folder / (name or "final")
        root.mkdir()
        self.stages[root.name] = Stage(root, make_venv(root / "usr"), self.links)

    def do_workdir(self, rest: str) -> None:
        self.stage.workdir = rest
        self.stage.path(rest).mkdir()

    def do_copy(self, rest: str) -> None:
        *options, source, target = rest.split()
        start = self.context
        if options:
            start = self.stages[options[0].removeprefix("--from=")].root
        there, here = start / source.lstrip("/"), self.stage.path(target)
        if target == ".":
            here = self.stage.path(self.stage.workdir)
        if there.is_dir():
            shutil.copytree(there, here, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy(there, here)

    def do_run(self, rest: str) -> None:
        self.stage.run(rest)

    def do_cmd(self, rest: str) -> None:
        self.command = [self.stage.here(word) for word in json.loads(rest)]

    def do_user(self, rest: str) -> None: ...

    def do_expose(self, rest: str) -> None: ...


@pytest.fixture(scope="module")
def recipe(ranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    found = Recipe("container", tmp_path_factory.mktemp("container"), port=free_port())
    shutil.copytree(ranker / "project", found.folder, dirs_exist_ok=True)
    shutil.rmtree(found.folder / "dist", ignore_errors=True)
    found.write()
    return found


@pytest.fixture(scope="module")
def image(recipe: Recipe, links: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    return Image((recipe.folder / "Dockerfile").read_text(), folder, recipe.folder, links)


def test_the_final_stage_has_what_runs_and_no_more(image: Image) -> None:
    assert list(image.stages) == ["build", "final"]
    (site,) = image.stage.path("/app").glob("lib/python*/site-packages")
    found = {path.name.partition("-")[0] for path in site.glob("*.dist-info")}
    assert found == {"aotbuild", "jaxlib", "ml_dtypes", "numpy", "ranker"}
    assert not has_module(image.stage.path("/app/bin/python"), "jax")
    assert not image.stage.path("/src").exists()


@pytest.mark.skipif(jaxlib.__version__ != "0.10.2", reason="the table is of jaxlib 0.10.2")
def test_the_table_of_sizes(image: Image, recipe: Recipe) -> None:
    (site,) = image.stage.path("/app").glob("lib/python*/site-packages")
    sizes = dict(re.findall(r"^\| (\w+)[^|]*\| (\d+) \|$", recipe.text, re.MULTILINE))
    files = [path for path in (site / "jaxlib").rglob("*") if path.is_file()]
    found = sum(path.stat().st_size for path in files) / 2**20
    assert found == pytest.approx(int(sizes["jaxlib"]), rel=0.05)


def test_it_serves(image: Image, recipe: Recipe, ranker: Path) -> None:
    with recipe.started(image.command, "listening on port") as server:
        ready = recipe.get("/")
        assert (ready.status, ready.json["loaded"]) == (200, 3)
        rows = np.random.default_rng(1).normal(size=(3, 4)).tolist()
        found = recipe.post("/score", {"rows": rows}).json["scores"]
        np.testing.assert_allclose(found, expected_scores(ranker, rows), rtol=1e-5)
        assert recipe.post("/score", {"rows": [[1, 2]]}).status == 422
        assert "Traceback" not in server.stop()
