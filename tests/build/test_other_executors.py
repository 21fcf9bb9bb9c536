"""Executors that know nothing of aotbuild: the standard library's, and submitit's."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import submitit
from support.installs import tree_of
from support.projects import MANIFEST, write_project

from aotbuild.build.executors.submitted import Listed, SubmittedJobs
from aotbuild.build.pack import build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.sources import find_sources
from aotbuild.errors import BuildError, PlanError
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

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

def builder():
    # It has started the compiler, whose fork this is.
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])

def f(x):
    victims = os.environ.get("TEST_KILLED", "")
    if x.shape[0] == 2 and victims and not (once := Path(victims)).is_file():
        if not once.is_dir():
            once.touch()
        os.kill(builder(), signal.SIGKILL)
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


class Processes:
    """Jobs of submitit as processes of this machine."""

    most = 2

    def __init__(self, folder: Path) -> None:
        self._executor = submitit.LocalExecutor(folder)
        self._executor.update_parameters(timeout_min=10)

    def submit(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        return [self._executor.submit(fn, *args, **kwargs) for fn, args, kwargs in calls]

    def listed(self, jobs: Iterable[Any]) -> dict[str, Listed]:
        return {job.job_id: Listed("RUNNING") for job in jobs if not job.done()}

    def cancel(self, jobs: Iterable[Any]) -> None:
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
    with SubmittedJobs(Processes(tmp_path / "jobs"), late=0.5) as executor:
        assert build(root, executor) == here
    assert (tmp_path / "once").exists()  # a job was lost, and tried again
    assert not [*(tmp_path / "jobs").glob("*result*")]


def test_a_job_of_submitit_that_is_lost_twice_fails_its_unit(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KILLED", str(tmp_path))
    with (
        SubmittedJobs(Processes(tmp_path / "jobs"), late=0.5) as executor,
        pytest.raises(BuildError) as caught,
    ):
        build(root, executor)
    failed = {failure.unit: failure.message for failure in caught.value.failures}
    assert set(failed) == {"f(n=2) for cpu:x86-64-v3:1", "f(n=2) for portable:cpu,cuda,tpu:1"}
    assert "2 workers were lost while they worked at it; the last: job " in str(failed)
