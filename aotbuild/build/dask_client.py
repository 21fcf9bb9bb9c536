"""`dask://HOST:PORT`: attempts at jobs by the workers of a Dask cluster.

The cluster decides which worker runs which attempt, and runs it again if that worker is lost.
Clusters of Slurm, Kubernetes and others are Dask's, too (dask-jobqueue, dask-kubernetes).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from aotbuild.build.pool import Attempt, Ended, Tell
from aotbuild.build.project import SourceTree
from aotbuild.build.project_files import pack_project
from aotbuild.build.protocol import Hello, Started, read_reply
from aotbuild.errors import PlanError
from aotbuild.format.files import write_whole
from aotbuild.format.layout import BLOBS
from aotbuild.store.folder import Folder
from aotbuild.toolchains.environments import ExactToolchain
from aotbuild.toolchains.toolchain import Toolchain

if TYPE_CHECKING:
    from aotbuild.build.dask_worker import Answer

# Attempts in flight: a cluster has its own queue, and grows by what is in it.
_MOST_WAITING = 1000
# How often a cluster tries an attempt again that raised an error on its machine.
_RETRIES = 2


@contextmanager
def open_cluster(
    url: str,
    hello: Hello,
    sources: SourceTree,
    toolchains: Mapping[Toolchain, ExactToolchain],
    jobs: int | None,
) -> Iterator[tuple[Callable[[Attempt, Tell], Ended], Executor]]:
    """Yield what runs one attempt, and the executor whose threads wait for it, at most `jobs`.

    Leaving the block ends what is queued and what runs. PlanError if the cluster cannot be used.
    """
    client = _connect(url)
    threads = ThreadPoolExecutor(jobs or _MOST_WAITING)
    try:
        cluster = _Cluster(client, url, hello)
        cluster.begin(sources, toolchains)
        try:
            yield cluster.run, threads
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


class _Cluster:
    """Runs attempts on the workers of a cluster. Safe to use from several threads."""

    def __init__(self, client: Any, url: str, hello: Hello) -> None:
        self._client, self._url, self._hello = client, url, hello
        self._build = f"aotbuild-{uuid4().hex}"

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
        try:
            self._client.register_plugin(build, name=self._build)
        except Exception as err:  # whatever a worker that lacks a module raises
            raise self._unusable(err) from err

    def end(self) -> None:
        """Take the build from the workers, which kills its compilers."""
        if self._client.status == "running":
            with suppress(Exception):  # a worker or the scheduler may just be lost
                self._client.unregister_worker_plugin(self._build)

    def run(self, attempt: Attempt, tell: Tell) -> Ended:
        """Run an attempt on some worker; PlanError if the cluster cannot work at all."""
        from distributed import KilledWorker

        from aotbuild.build.dask_worker import run_job  # imports distributed

        tell(Started(doing=f"waiting for {self._url}"))
        future = self._client.submit(run_job, self._build, attempt, pure=False, retries=_RETRIES)
        try:
            return self._receive(future.result(), tell)
        except KilledWorker as err:
            return Ended(f"{self._url}: {str(err).partition('.')[0]}", started=False)
        except CancelledError as err:
            msg = f"{self._url}: the connection to the scheduler was lost; build again"
            raise PlanError(msg) from err
        except RuntimeError as err:  # of one machine, and of those that tried again
            return Ended(f"{self._url}: {err}", started=False)
        except ModuleNotFoundError as err:
            raise self._unusable(err) from err

    def _unusable(self, err: BaseException) -> PlanError:
        return PlanError(
            f"{self._url}: {err}: install aotbuild[build,dask] on the scheduler and on all "
            "workers, in the version of this machine"
        )

    def _receive(self, answer: Answer, tell: Tell) -> Ended:
        """Keep what an attempt made, and tell its messages."""
        if answer.refused:
            msg = f"{self._url}: {answer.refused}"
            raise PlanError(msg)
        self._keep(answer)
        # Messages name files of the project as the user knows them.
        there, here = answer.root, str(self._hello.root)
        # As JSON has them in a text.
        written, known = json.dumps(there)[1:-1], json.dumps(here)[1:-1]
        for line in answer.messages:
            tell(read_reply(line.replace(written, known)))
        ended = answer.ended
        if ended.exited is None:
            return ended
        return replace(ended, exited=f"on {answer.machine}: {ended.exited.replace(there, here)}")

    def _keep(self, answer: Answer) -> None:
        """Write the entries of the store and the blobs that an attempt made, where they are not."""
        if self._hello.store is not None:
            folder = Folder(self._hello.store)
            for key, raw in answer.entries.items():
                if not folder.has(key):
                    with suppress(OSError):  # as workers do: a store that is full fails no build
                        folder.write(key, raw)
        for name, data in answer.blobs.items():
            path = self._hello.blobs / BLOBS / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
