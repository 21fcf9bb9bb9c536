"""`dask://HOST:PORT`: attempts at jobs by the workers of a Dask cluster.

The cluster decides which worker runs which attempt, and runs it again if that worker is lost.
Clusters of Slurm, Kubernetes and others are Dask's, too (dask-jobqueue, dask-kubernetes).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from aotbuild.build.attempt import Exited, Outcome, Request, Tell
from aotbuild.build.project_files import pack_project
from aotbuild.build.protocol import Hello, Started, read_reply
from aotbuild.build.sources import SourceTree
from aotbuild.errors import PlanError
from aotbuild.format.files import write_whole
from aotbuild.store.folder import Folder
from aotbuild.toolchains.exact import ExactToolchain
from aotbuild.toolchains.toolchain import Toolchain

if TYPE_CHECKING:
    from aotbuild.build.dask_worker import Answer

# Attempts in flight: a cluster has its own queue, and grows by what is in it.
_MOST_WAITING = 1000
# How often a cluster tries an attempt again that raised an error on its machine.
_RETRIES = 2
# Blobs of so many bytes, as constants that all signatures share, come back once.
_LARGE = 1_000_000


@contextmanager
def open_cluster(
    url: str,
    hello: Hello,
    sources: SourceTree,
    toolchains: Mapping[Toolchain, ExactToolchain],
    most: int,
    jobs: int | None,
) -> Iterator[tuple[DaskCluster, Executor]]:
    """Yield a cluster, and the executor whose threads wait for it, at most `jobs` at a time.

    Leaving the block ends what is queued and what runs. PlanError if the cluster cannot be used.
    """
    client = _connect(url)
    threads = ThreadPoolExecutor(min(jobs or _MOST_WAITING, most))
    try:
        cluster = DaskCluster(client, url, hello)
        cluster.begin(sources, toolchains)
        try:
            yield cluster, threads
        finally:
            cluster.end()
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close(timeout=5)  # wakes the threads that wait for results
        threads.shutdown(cancel_futures=True)


def _connect(url: str) -> Any:
    """Return a client of a scheduler; PlanError if it does not answer."""
    parts = urlsplit(url)
    with suppress(ValueError):
        if parts.hostname and parts.port and not parts.path.strip("/") and not parts.query:
            address = f"tcp://{parts.netloc}"
            try:
                from distributed import Client  # takes half a second, and is an extra

                return Client(address, set_as_default=False)
            except ImportError as err:
                msg = f"{url}: {err}; install aotbuild[dask]"
                raise PlanError(msg) from err
            except Exception as err:  # what else answers there may make Dask raise anything
                msg = (
                    f"{url}: no scheduler of Dask answers at {address}: {err}; start one: "
                    f"dask scheduler --port {parts.port}"
                )
                raise PlanError(msg) from err
    msg = f"executor: expected dask://HOST:PORT, found {url.partition('?')[0]!r}"
    raise PlanError(msg)


class DaskCluster:
    """Runs attempts on the workers of a cluster. Safe to use from several threads."""

    def __init__(self, client: Any, url: str, hello: Hello) -> None:
        self._client, self._url, self._hello = client, url, hello
        self._build = f"aotbuild-{uuid4().hex}"
        # What is told of each attempt that is not over, and how often workers have begun it.
        self._tells: dict[str, Tell] = {}
        self._begun: Counter[str] = Counter()
        self._large: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def begin(self, sources: SourceTree, toolchains: Mapping[Toolchain, ExactToolchain]) -> None:
        """Give the build to all workers, also to those that come later."""
        from aotbuild.build.dask_worker import BuildOnWorker  # imports distributed

        import_root = sources.below(sources.import_root)
        if import_root is None:
            msg = (
                f"other machines get the files below {sources.root}, but {sources.package} is "
                f"imported from {sources.import_root}; build in a folder that contains both "
                "(--root)"
            )
            raise PlanError(msg)
        archive = pack_project(sources.root)
        # As here, where a program may open its files by relative paths.
        folder = sources.below(Path.cwd()) or "."
        build = BuildOnWorker(self._hello, archive, import_root, folder, toolchains)
        self._client.subscribe_topic(self._build, self._heard)
        try:
            self._client.register_plugin(build, name=self._build)
        except Exception as err:  # whatever a worker that lacks a module raises
            raise self._unusable(err) from err

    def end(self) -> None:
        """Take the build from the workers, which kills its compilers."""
        if self._client.status == "running":
            with suppress(Exception):  # a worker or the scheduler may just be lost
                self._client.unregister_worker_plugin(self._build)

    def attempt(self, request: Request, tell: Tell) -> Outcome:
        """Run an attempt on some worker.

        PlanError if the cluster cannot work at all.
        """
        from distributed import KilledWorker

        for is_last in (False, True):
            key = f"{self._build}-{uuid4().hex}"
            with self._lock:
                self._tells[key] = tell
            tell(Started(doing=f"waiting for {self._url}", waits=True))
            try:
                return self._receive(request, self._answer(key, request), tell)
            except KilledWorker as err:
                # Dask also gives up attempts that only waited on workers that others killed.
                if self._begun[key] > 1 or is_last:
                    text = f"{self._url}: {str(err).partition('.')[0]}"
                    return Outcome(Exited(text, started=False))
            except CancelledError as err:
                msg = f"{self._url}: the connection to the scheduler was lost; build again"
                raise PlanError(msg) from err
            except RuntimeError as err:  # of one machine, and of those that tried again
                return Outcome(Exited(f"{self._url}: {err}", started=False))
            except ModuleNotFoundError as err:
                raise self._unusable(err) from err
            finally:
                with self._lock:
                    del self._tells[key]
        raise AssertionError

    def _answer(self, key: str, request: Request) -> Answer:
        from aotbuild.build.dask_worker import run_job  # imports distributed

        have = frozenset(self._large.get(request.job.name, ()))
        future = self._client.submit(
            run_job, self._build, key, request, have, key=key, pure=False, retries=_RETRIES
        )
        answer: Answer = future.result()
        return answer

    def _heard(self, event: tuple[float, dict[str, str]]) -> None:
        """Take what a worker says of an attempt."""
        said = event[1]
        with self._lock:
            self._begun[said["key"]] += said["doing"].endswith(": begun")
            if tell := self._tells.get(said["key"]):
                tell(Started(doing=f"{said['doing']} on {said['worker']}"))

    def _unusable(self, err: BaseException) -> PlanError:
        return PlanError(
            f"{self._url}: {err}: install aotbuild[build,dask] on the scheduler and on all "
            "workers, in the version of this machine"
        )

    def _receive(self, request: Request, answer: Answer, tell: Tell) -> Outcome:
        """Keep what an attempt made, and tell its messages."""
        if answer.refused:
            msg = f"{self._url}: {answer.refused}"
            raise PlanError(msg)
        self._keep_entries(answer.entries)
        self._keep_blobs(request.job.name, answer.blobs)
        # Messages name files of the project as the user knows them.
        there, here = answer.root, str(self._hello.root)
        for line in answer.messages:
            tell(read_reply(line.replace(there, here)))
        outcome = answer.outcome
        if outcome.exited is None:
            return outcome
        text = f"on {answer.machine}: {outcome.exited.text.replace(there, here)}"
        return replace(outcome, exited=replace(outcome.exited, text=text))

    def _keep_entries(self, entries: Mapping[str, bytes]) -> None:
        if self._hello.store is None:
            return
        folder = Folder(self._hello.store)
        for key, raw in entries.items():
            if not folder.has(key):
                with suppress(OSError):  # as workers do: a store that is full fails no build
                    folder.write(key, raw)

    def _keep_blobs(self, function: str, blobs: Mapping[str, bytes]) -> None:
        for name, data in blobs.items():
            path = self._hello.blobs / "blobs" / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
            if len(data) >= _LARGE:
                with self._lock:
                    self._large.setdefault(function, set()).add(name)
