"""One build on a worker of a Dask cluster: the project's files, compilers, and attempts at jobs.

A worker gets a `BuildOnWorker` as a plugin of Dask when the build begins, or when the worker joins
the cluster. `run_job` is the task that the cluster runs for each attempt.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

from distributed import WorkerPlugin, get_worker

from aotbuild.build.pool import Attempt, Ended, WorkerPool
from aotbuild.build.project_files import unpack_project
from aotbuild.build.protocol import Done, Hello, Reply, to_line
from aotbuild.build.time_and_memory_limits import usable_cpus
from aotbuild.format.layout import BLOBS
from aotbuild.format.temporary import temporary_folder
from aotbuild.store.build_store import open_store
from aotbuild.store.folder import Folder
from aotbuild.toolchains.environments import ExactToolchain
from aotbuild.toolchains.toolchain import Toolchain

# Compiler processes end after so many seconds without a job.
_IDLE = 60.0
# Compiler processes of one build on one worker. Dask lets a few work at a time; a job with other
# settings needs another process.
_MOST = 8
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Answer:
    """What an attempt on a worker sends back.

    `messages` are the job's, as lines of the protocol, with paths below `root`, the project's
    folder on that machine. `entries` are files of the store by key, `blobs` are bytes by file name.
    `refused` says why the worker cannot work for the build.
    """

    machine: str
    root: str = ""
    messages: list[str] = field(default_factory=list)
    ended: Ended = field(default_factory=Ended)
    entries: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    refused: str = ""


class BuildOnWorker(WorkerPlugin):  # type: ignore[misc] # distributed has no types
    """One build, on one worker.

    `archive` has the project's files; in it, the package is imported from `import_root`, and
    processes start in `folder`. `toolchains` has each toolchain of the build machine in the form
    that other machines can have.
    """

    def __init__(
        self,
        hello: Hello,
        archive: bytes,
        import_root: str,
        folder: str,
        toolchains: Mapping[Toolchain, ExactToolchain],
    ) -> None:
        self._hello, self._archive = hello, archive
        self._import_root, self._folder = import_root, folder
        self._exact = dict(toolchains)

    def setup(self, worker: Any) -> None:
        """Begin; what takes long is done by the first attempt."""
        del worker
        self._lock = threading.Lock()
        self._cleanup = ExitStack()
        self._toolchains: dict[Toolchain, Toolchain] = {}
        self._pool: WorkerPool | None = None
        self._idle: threading.Timer | None = None

    def teardown(self, worker: Any) -> None:
        """Kill the compilers, and remove the files."""
        del worker
        self._keep_compilers()
        if self._pool is not None:
            self._pool.stop()
            self._pool.close()
        self._cleanup.close()

    def run(self, attempt: Attempt) -> Answer:
        """Run an attempt, and collect what it made."""
        machine = socket.gethostname()
        found, expected = metadata.version("aotbuild"), self._hello.provenance["aotbuild"]
        if found != expected:
            return Answer(
                machine,
                refused=f"{machine} has aotbuild {found} in {sys.prefix}, expected {expected}, as "
                f"on the build machine; install aotbuild[build,dask]=={expected} there",
            )
        with self._lock:
            pool = self._pool = self._pool or self._open()
            toolchain = self._toolchain(attempt.settings.toolchain)
            self._keep_compilers()
        settings = replace(attempt.settings, toolchain=toolchain)
        messages: list[Reply] = []
        try:
            ended = pool.run(replace(attempt, settings=settings), messages.append)
        finally:
            self._end_idle_compilers(pool)
        lines = list(map(to_line, messages))
        named = {digest for line in lines for digest in _DIGEST.findall(line)}
        done = [message for message in messages if isinstance(message, Done)]
        keys = {key for each in done for key in (*each.made, *each.used)}
        entries, blobs = _entries(pool, keys), _blobs(pool, named)
        return Answer(machine, str(self._root), lines, ended, entries, blobs)

    def _open(self) -> WorkerPool:
        """Unpack the project, and return a pool of compilers without any."""
        temporary = self._cleanup.enter_context(temporary_folder(what="dask-"))
        self._root = temporary / "project"
        unpack_project(self._archive, self._root)
        build_store = open_store(os.environ)
        hello = self._hello.model_copy(
            update={
                "blobs": temporary / "blobs",
                # Without a store here, that of the build machine gets what is made all the same.
                "store": build_store.front or temporary / "store",
                "behind": bool(build_store.behind),
                "root": self._root,
                "secret_paths": (*self._hello.secret_paths, str(self._root), sys.prefix),
            }
        )
        folder = self._root / self._folder
        return WorkerPool(
            hello,
            self._root / self._import_root,
            max(_MOST, usable_cpus()),
            fetch=build_store.fetch,
            folder=folder if folder.is_dir() else self._root,
        )

    def _toolchain(self, wanted: Toolchain) -> Toolchain:
        if wanted not in self._toolchains:
            self._toolchains[wanted] = self._exact[wanted].here()
        return self._toolchains[wanted]

    def _keep_compilers(self) -> None:
        if self._idle is not None:
            self._idle.cancel()

    def _end_idle_compilers(self, pool: WorkerPool) -> None:
        """End compilers that get no job for a while: a build that was killed says no more."""
        self._keep_compilers()
        self._idle = threading.Timer(_IDLE, pool.close)
        self._idle.daemon = True
        self._idle.start()


def _entries(pool: WorkerPool, keys: set[str]) -> dict[str, bytes]:
    """Return the files of entries, by key."""
    assert pool.hello.store is not None, "a pool here has one"
    folder = Folder(pool.hello.store)
    found = ((key, folder.read(key)) for key in sorted(keys))
    return {key: raw for key, raw in found if raw is not None}


def _blobs(pool: WorkerPool, digests: set[str]) -> dict[str, bytes]:
    """Return the blobs with these digests, by file name."""
    return {
        path.name: path.read_bytes()
        for path in sorted((pool.hello.blobs / BLOBS).glob("*"))
        if path.name.partition(".")[0] in digests
    }


def run_job(build: str, attempt: Attempt) -> Answer:
    """Run an attempt on this worker.

    RuntimeError if this machine fails: the error of a library may not survive the way back.
    """
    plugin: BuildOnWorker = get_worker().plugins[build]
    try:
        return plugin.run(attempt)
    except Exception as err:  # noqa: BLE001 (whatever this machine lacks)
        msg = f"{socket.gethostname()}: {type(err).__name__}: {err}"
        raise RuntimeError(msg) from None
