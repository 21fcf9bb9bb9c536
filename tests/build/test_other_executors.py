"""Executors that know nothing of aotbuild: the standard library's, and submitit's."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import submitit
from support.installs import tree_of
from support.projects import MANIFEST, write_project

from aotbuild.build.executors.slurm import SubmittedJobs, submitting
from aotbuild.build.pack import build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.sources import find_sources
from aotbuild.errors import BuildError, PlanError
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe

pytestmark = pytest.mark.process

TEXT = """
version: 1
package: proj
targets: [{cpu: {isa: [x86-64-v3]}}, portable]
functions:
  f: {call: "proj.m:f", args: [x: "f32[n]"], dims: {n: [1, 2]}, constants: hoist}
"""
# The process that runs the call is killed: while it traces 2 for the first time, or each time.
SOURCE = """
import os
import signal
from pathlib import Path

import jax
import numpy

TABLE = numpy.arange(300000, dtype="float32")

def f(x):
    victims = os.environ.get("TEST_KILLED", "")
    if x.shape[0] == 2 and victims and not (once := Path(victims)).is_file():
        if not once.is_dir():
            once.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    return jax.numpy.sin(x) + jax.numpy.asarray(TABLE).sum()
"""


def build(root: Path, executor: Executor | None = None) -> dict[str, bytes]:
    manifest = load_manifest(root / MANIFEST)
    sources = find_sources(root, manifest.package)
    build_package(
        make_plan(manifest, probe()), sources, root / "out" / "_aot", executor=executor, jobs=2
    )
    return tree_of(root / "out" / "_aot")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What processes of this machine make."""
    return build(write_project(tmp_path_factory.mktemp("here") / "p", TEXT, m=SOURCE))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "elsewhere" / "p", TEXT, m=SOURCE)


class Submitted(SubmittedJobs):
    """Jobs of submitit as processes of this machine."""

    def __init__(self, folder: Path) -> None:
        executor = submitit.LocalExecutor(folder)
        executor.update_parameters(timeout_min=10)
        super().__init__(executor, self._alive, self._cancel, late=0.5)

    @staticmethod
    def _alive(jobs: Iterable[Any]) -> set[str]:
        return {job.job_id for job in jobs if not job.done()}

    @staticmethod
    def _cancel(jobs: Iterable[Any]) -> None:
        for job in jobs:
            job.cancel()


def test_processes_of_the_standard_library(root: Path, here: dict[str, bytes]) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert build(root, executor) == here
        assert build(root, executor) == here  # it stays open


def test_a_broken_pool_is_one_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KILLED", str(root))
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=context) as executor,
        pytest.raises(PlanError, match=r"^ProcessPoolExecutor broke: "),
    ):
        build(root, executor)


def test_jobs_of_submitit(
    tmp_path: Path, root: Path, here: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KILLED", str(tmp_path / "once"))
    with Submitted(tmp_path / "jobs") as executor:
        assert build(root, executor) == here
    assert (tmp_path / "once").exists()  # a job was lost, and tried again
    assert not [*(tmp_path / "jobs").glob("*result*")]


def test_a_job_of_submitit_that_is_lost_twice_fails_its_unit(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KILLED", str(tmp_path))
    with Submitted(tmp_path / "jobs") as executor, pytest.raises(BuildError) as caught:
        build(root, executor)
    failed = {failure.unit: failure.message for failure in caught.value.failures}
    assert set(failed) == {"f(n=2) for cpu:x86-64-v3:1", "f(n=2) for portable:cpu,cuda,tpu:1"}
    assert "2 workers were lost while they worked at it; the last: job " in str(failed)


def test_slurm_removes_nothing_from_the_folder_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("srun", "sbatch"):  # so that submitit finds a cluster
        stub = tmp_path / "bin" / command
        stub.parent.mkdir(exist_ok=True)
        stub.write_text("#!/bin/sh\n")
        stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    place = tmp_path / "scratch"
    kept, left = place / "thesis", place / "aotbuild-slurm" / "build-old"
    for folder in (kept, left):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    submitting(f"slurm://?folder={place}").close()
    assert kept.is_dir()
    assert not left.exists()


class Queue:
    """A cluster whose jobs never end, as submitit shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    def submit(self, *_: Any, **__: Any) -> Any:
        self.count += 1
        paths = SimpleNamespace(folder=self.folder, result_pickle=self.folder / str(self.count))
        return SimpleNamespace(job_id=str(self.count), paths=paths)

    batch = staticmethod(nullcontext)


def test_jobs_of_slurm_are_canceled_if_a_command_of_it_fails(tmp_path: Path) -> None:
    canceled: list[str] = []

    def alive(_: Iterable[Any]) -> set[str]:
        msg = "squeue: Unable to contact slurm controller"
        raise OSError(msg)

    with SubmittedJobs(
        Queue(tmp_path), alive, lambda jobs: canceled.extend(job.job_id for job in jobs), 0.1
    ) as executor:
        futures = [executor.submit(print) for _ in range(3)]
        errors = [str(future.exception(timeout=60)) for future in futures]
    assert all("Unable to contact slurm controller" in error for error in errors)
    assert canceled == ["1", "2", "3"]
