"""Units side by side: as many as CPUs and memory allow, each with the settings of its worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from support.projects import MANIFEST, run_project, write_project

from aotbuild.build.plan import make_plan
from aotbuild.build.pool import WorkerPool, open_pool
from aotbuild.build.protocol import Hello
from aotbuild.build.time_and_memory_limits import available_memory, most_jobs, usable_cpus
from aotbuild.build.worker_process import Worker
from aotbuild.build.worker_settings import Settings
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import Toolchain, probe

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


# --- what this process may use --------------------------------------------------------------------

MEMINFO = "MemTotal:       64 kB\nMemAvailable:   20971520 kB\n"
STAT = "anon 5\ninactive_file 1073741824\n"


def test_memory_of_a_machine_without_limits(tmp_path: Path) -> None:
    assert available_memory(write(tmp_path, {"proc/meminfo": MEMINFO})) == 20 * GIB


def test_the_narrowest_group_of_version_2_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/user.slice/job 1\n",
            "sys/fs/cgroup/user.slice/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/user.slice/memory.current": f"{6 * GIB}\n",
            "sys/fs/cgroup/user.slice/memory.stat": STAT,
            "sys/fs/cgroup/user.slice/job 1/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/job 1/memory.current": f"{5 * GIB}\n",
        },
    )
    assert available_memory(tmp_path) == 3 * GIB


@pytest.mark.parametrize(
    ("files", "limited"),
    [({"cpu.max": "50000 100000\n"}, True), ({"cpu.max": "max 100000\n"}, False), ({}, False)],
)
def test_a_quota_of_cpus(tmp_path: Path, files: dict[str, str], limited: bool) -> None:
    write(tmp_path, {"proc/self/cgroup": "1:cpu:/\n0::/\n"})
    write(tmp_path / "sys/fs/cgroup", files)
    assert usable_cpus(tmp_path) == (1 if limited else len(os.sched_getaffinity(0)))


def test_the_variable_decides_how_many() -> None:
    assert most_jobs({"AOTBUILD_JOBS": "7"}) == 7
    assert most_jobs({"AOTBUILD_JOBS": ""}) == most_jobs({}) == usable_cpus()


# --- workers --------------------------------------------------------------------------------------


class Machine:
    """A pool whose workers are processes that do nothing."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.interpreter = folder / "python"
        self.interpreter.write_text("#!/bin/sh\nexec cat > /dev/null\n")
        self.interpreter.chmod(0o755)
        self.pool = WorkerPool(Hello(blobs=folder), folder, limit)

    def take(self, who: str) -> Worker:
        toolchain = Toolchain("1", "1", "3.99.0", interpreter=self.interpreter)
        return self.pool.take(Settings(toolchain, "cpu", None, 1, False, (), (("WHO", who),)))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as executor:
        yield executor


def is_waiting(future: Future[Worker]) -> bool:
    try:
        future.result(0.2)
    except TimeoutError:
        return True
    return False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.process
def test_no_more_workers_than_the_limit(folder: Path, threads: ThreadPoolExecutor) -> None:
    machine = Machine(folder, limit=1)
    first = machine.take(who="a")
    second = threads.submit(machine.take, who="b")
    assert is_waiting(second)
    machine.pool.give_back(first)
    machine.pool.give_back(second.result(30))
    assert not first.is_alive
    machine.pool.close()


def test_no_more_workers_than_memory_allows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = Toolchain("1", "1", "3.99.0")
    settings = [Settings(toolchain, each, None, 1, False, (), ()) for each in ("cpu", "cuda")] * 4
    for memory, expected in ((2 * GIB, 3), (1, 1), (None, 8)):
        monkeypatch.setattr("aotbuild.build.pool.available_memory", lambda memory=memory: memory)
        with open_pool(Hello(blobs=folder), folder, settings, 9) as (_, threads):
            assert threads._max_workers == expected  # type: ignore[attr-defined]


@pytest.mark.process
def test_an_idle_worker_is_used_again_unless_it_died(folder: Path) -> None:
    machine = Machine(folder, limit=2)
    first = machine.take(who="a")
    machine.pool.give_back(first)
    assert machine.take(who="a") is first
    machine.pool.give_back(first)
    first.kill("as the system does for want of memory")
    second = machine.take(who="a")
    assert second is not first
    machine.pool.give_back(second)
    machine.pool.close()


@pytest.mark.process
def test_who_waits_for_a_worker_hears_that_the_build_stopped(
    folder: Path, threads: ThreadPoolExecutor
) -> None:
    machine = Machine(folder, limit=1)
    first = machine.take(who="a")
    waiting = threads.submit(machine.take, who="b")
    assert is_waiting(waiting)
    machine.pool.stop()
    with pytest.raises(CancelledError):
        waiting.result(30)
    machine.pool.discard(first)


# --- a whole build --------------------------------------------------------------------------------

# Each waits until the other has begun, if it shall; and says when it is there.
MEETING = """
import os, pathlib, time
here = pathlib.Path(os.environ["MEETING"])
def meet(x):
    me, other = os.environ["ME"], os.environ["OTHER"]
    (here / me).touch()
    deadline = time.monotonic() + 100
    while other and not (here / other).exists():
        assert time.monotonic() < deadline, f"{other} was not begun while {me} was at work"
        time.sleep(0.01)
    return x
"""


def meeting(root: Path, pairs: dict[str, str], targets: str = "[cpu]") -> Path:
    functions = "".join(
        f"  {me}:\n    call: proj.m:meet\n    args: [x: 'f32[3]']\n"
        f"    verify: {{golden: never}}\n"
        f"    env: {{MEETING: '{root}', ME: {me}, OTHER: '{other}'}}\n"
        for me, other in pairs.items()
    )
    manifest = f"version: 1\npackage: proj\ntargets: {targets}\nfunctions:\n{functions}"
    return write_project(root, manifest, m=MEETING)


@pytest.mark.process
def test_units_of_different_settings_are_at_work_together(tmp_path: Path) -> None:
    done = run_project(meeting(tmp_path, {"a": "b", "b": "a"}), jobs=2)
    assert [result.failure for result in done] == [None, None]


@pytest.mark.process
def test_results_are_in_the_order_of_the_plan_and_of_equal_values(tmp_path: Path) -> None:
    functions = (
        "functions:\n  f: {call: 'proj.m:f', args: [{x: 'f32[n]'}], dims: {n: [8, 2]},"
        " static: {k: [3, 1, true, 1.0]}}\n"
    )
    text = f"version: 1\npackage: proj\ntargets: [cpu, portable]\n{functions}"
    root = write_project(tmp_path, text, m="def f(x, k): return x * k\n")
    labels = [str(result.unit) for result in run_project(root, jobs=2)]
    plan = make_plan(load_manifest(root / MANIFEST), probe())
    assert labels == list(map(str, plan.units))
    assert len(set(labels)) == 16
