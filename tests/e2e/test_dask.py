"""Builds on a Dask cluster: a scheduler and workers, as processes of this machine."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.installs import build_wheel
from support.levels import OTHER_LEVEL
from support.processes import clean_environment
from support.projects import PYPROJECT

from aotbuild import __version__

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

MANIFEST = """
version: 1
package: proj
targets: [{cpu: {isa: [OTHER, x86-64-v3]}}, portable]
functions:
  f: {call: "proj.m:f", args: [x: "f32[n]"], dims: {n: [1, 2, 3, 4, 5]}, constants: hoist}
  g: {call: "proj.m:g", args: [x: "f32[n]"], dims: {n: [6, 7, 8]}, static: {k: [2]}}
""".replace("OTHER", OTHER_LEVEL)
# What happens to a machine while it traces a size: its process is killed, once or each time.
SOURCE = """
import os
import signal
from pathlib import Path

import jax
import numpy

TABLE = numpy.arange(300000, dtype="float32")

def builder():
    # It has started the compiler, whose forks, and theirs, have its command line.
    process = Path("/proc/self").resolve()
    command = (process / "cmdline").read_bytes()
    while (process / "cmdline").read_bytes() == command:
        process = Path("/proc", (process / "stat").read_text().rpartition(")")[2].split()[1])
    return int(process.name)

def meet(size):
    wanted, _, marker = os.environ.get("TEST_KILLED_BY", "").partition(":")
    if wanted == str(size) and not (marker and Path(marker).exists()):
        if marker:
            Path(marker).touch()
        os.kill(builder(), signal.SIGKILL)
        signal.pause()

def f(x):
    meet(x.shape[0])
    return jax.numpy.sin(x) + TABLE[:1] + jax.numpy.asarray(TABLE).sum()

def g(x, k):
    meet(x.shape[0])
    return jax.numpy.cumsum(x) ** k
"""


def project(root: Path) -> Path:
    files = {"pyproject.toml": PYPROJECT, "aot.yaml": MANIFEST, "proj/m.py": SOURCE}
    for name, text in {**files, "proj/__init__.py": ""}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@dataclass
class Cluster:
    """A scheduler, and workers that each have a folder as a machine of its own."""

    folder: Path
    url: str
    cleanup: ExitStack
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def machines(self) -> list[Path]:
        return sorted(self.folder.glob("machine*"))

    def add_worker(self, *options: str, **env: str) -> None:
        machine = self.folder / f"machine{len(self.workers)}"
        (machine / "tmp").mkdir(parents=True)
        own = {
            "AOTBUILD_TOOLCHAINS": str(machine / "toolchains"),
            "AOTBUILD_STORE": "off",
            "TMPDIR": str(machine / "tmp"),
        }
        place = ("--scheduler-file", str(self.folder / "scheduler.json"))
        command = ("worker", *place, "--nthreads", "1", "--no-dashboard", *options)
        self.workers.append(start(self.cleanup, machine, command, **own, **env))


def start(
    cleanup: ExitStack, folder: Path, command: tuple[str, ...], **env: str
) -> subprocess.Popen[bytes]:
    log = cleanup.enter_context((folder / "log").open("wb"))
    program = (sys.executable, "-m", "dask", *command)
    process = subprocess.Popen(
        program, cwd=folder, stdout=log, stderr=log, env=clean_environment(**env)
    )
    cleanup.callback(end, process)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process as its machine does when it is shut down."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def cluster(
    folder: Path, workers: int, *options: str, port: int = 0, **env: str
) -> Iterator[Cluster]:
    """Yield a cluster with so many workers, each with these options and variables."""
    folder.mkdir()
    file = folder / "scheduler.json"
    with ExitStack() as cleanup:
        place = ("--host", "127.0.0.1", "--port", str(port), "--scheduler-file", str(file))
        scheduler = start(cleanup, folder, ("scheduler", *place, "--no-dashboard"))
        until(lambda: file.exists() and file.read_text().endswith("}"), scheduler)
        url = json.loads(file.read_text())["address"].replace("tcp:", "dask:")
        made = Cluster(folder, url, cleanup, scheduler)
        for _ in range(workers):
            made.add_worker(*options, **env)
        yield made


def until(happened: Callable[[], Any], process: subprocess.Popen[Any]) -> None:
    while not happened():
        assert process.poll() is None, process.args
        time.sleep(0.05)


def build(
    url: str, root: Path, *options: str, see: Callable[[str], Any] = str, connect: str = "30s"
) -> tuple[int, str]:
    """Build, and return the exit code and what was printed; `see` gets each line at once."""
    command = ("build", "--executor", url, "--out", "out/_aot", *options)
    process = subprocess.Popen(
        [sys.executable, "-m", "aotbuild", *command],
        cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=clean_environment(
            AOTBUILD_STORE="off", DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=connect
        ),
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            see(line)
            lines.append(line)
    return process.returncode, "".join(lines)


def processes_in(folder: Path) -> list[str]:
    """Return where processes below a folder work, if they do not end in a minute.

    A nanny waits some seconds for its worker.
    """
    last = time.monotonic() + 60
    while (found := _processes_in(folder)) and time.monotonic() < last:
        time.sleep(0.2)
    return found


def _processes_in(folder: Path) -> list[str]:
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # it has ended, or is somebody else's
            found.append(str(link.readlink()))
    return [place for place in found if place.startswith(str(folder))]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that this machine alone makes."""
    root = tmp_path_factory.mktemp("local")
    return build_wheel(project(root / "project"), root / "wheel")


def test_a_wheel_has_the_bytes_of_a_local_build_though_a_worker_is_killed(
    tmp_path: Path, local: Path
) -> None:
    marker = tmp_path / "killed"
    with cluster(tmp_path / "c", 2, "--no-nanny", TEST_KILLED_BY=f"3:{marker}") as dask:
        root = project(tmp_path / "elsewhere" / "project")
        wheel = build_wheel(root, tmp_path / "wheel", AOTBUILD_EXECUTOR=dask.url)
        assert marker.exists()
        assert sum(worker.poll() is None for worker in dask.workers) == 1
    assert wheel.read_bytes() == local.read_bytes()
    assert processes_in(tmp_path / "c") == []
    # The killed one had no time to clean up; the next process there does.
    left = [[*(machine / "tmp").glob(".aotbuild*")] for machine in dask.machines]
    assert sorted(map(len, left)) == [0, 1]


def test_a_scheduler_that_dies_ends_the_build(tmp_path: Path) -> None:
    died = []

    def kill(line: str) -> None:
        if "[2/" in line:
            dask.scheduler.kill()
            died.append(time.monotonic())

    with cluster(tmp_path / "c", 1) as dask:
        code, printed = build(dask.url, project(tmp_path / "p"), see=kill)
    assert time.monotonic() - died[0] < 30
    lost = f"{dask.url}: the connection to the scheduler was lost; build again"
    assert (code, printed.splitlines()[-1]) == (3, lost)
    assert not (tmp_path / "p" / "out").exists()
    assert processes_in(tmp_path) == []


def test_a_worker_with_another_version_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "site" / "aotbuild-9.9.dist-info" / "METADATA"
    other.parent.mkdir(parents=True)
    other.write_text("Metadata-Version: 2.1\nName: aotbuild\nVersion: 9.9\n")
    with cluster(tmp_path / "c", 1, PYTHONPATH=str(tmp_path / "site")) as dask:
        code, printed = build(dask.url, project(tmp_path / "p"))
    expected = (
        f"{dask.url}: {socket.gethostname()} has aotbuild 9.9 in {sys.prefix}, expected "
        f"{__version__}, as on the build machine; install aotbuild[build,dask]=={__version__} there"
    )
    assert (code, printed.splitlines()[-1]) == (3, expected)


def test_no_scheduler(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"127.0.0.1:{server.getsockname()[1]}"
    code, printed = build(f"dask://{url}", project(tmp_path / "p"), connect="1s")
    expected = f"dask://{url}: no scheduler of Dask answers at tcp://{url}: "
    assert (code, printed.splitlines()[-1][: len(expected)]) == (3, expected)
