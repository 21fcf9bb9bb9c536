"""The pool of worker processes: as many as this machine has room for, kept for the next job."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aotbuild.build.jobs import Settings
from aotbuild.build.protocol import Hello
from aotbuild.build.worker_process import NotStarted, Worker, WorkerExited
from aotbuild.errors import PlanError
from aotbuild.format.target import is_count
from aotbuild.format.values import cut

JOBS_VARIABLE = "AOTBUILD_JOBS"
_ROOT = Path("/")


def usable_cpus(root: Path = _ROOT) -> int:
    """Return how many CPUs this process may use, by its affinity and its control groups' quotas."""
    try:
        scheduled = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        scheduled = os.cpu_count() or 1
    quotas = [quota for folder in _groups(root) for quota in _quotas(folder)]
    return max(1, min([scheduled, *map(math.ceil, quotas)]))


def available_memory(root: Path = _ROOT) -> int | None:
    """Return the bytes that are free without swapping; None where the system does not say."""
    lines = map(str.split, _text(root / "proc/meminfo").splitlines())
    free = [int(words[1]) * 1024 for words in lines if words[:1] == ["MemAvailable:"]]
    groups = [left for folder in _groups(root) for left in _left(folder)]
    return max(0, min([*free, *groups])) if free or groups else None


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of the control group that this process is in (cgroup v2), and its parents.

    In a container the path may be the host's, and only the mount's own files are there.
    """
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::"):
            inside = mount / line.removeprefix("0::").lstrip("/")
            yield from (p for p in (inside, *inside.parents) if p.is_relative_to(mount))


def _quotas(folder: Path) -> Iterator[float]:
    words = _text(folder / "cpu.max").split()
    if words and words[0] != "max":
        yield int(words[0]) / int(words[1])


def _left(folder: Path) -> Iterator[int]:
    most, used = (_text(folder / name).strip() for name in ("memory.max", "memory.current"))
    if most.isdigit() and used.isdigit():
        # Cached files count as used, but the kernel drops them when needed.
        facts = dict(line.split() for line in _text(folder / "memory.stat").splitlines())
        yield int(most) - int(used) + int(facts.get("inactive_file", 0))


def _text(path: Path) -> str:
    """Return the text of a file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


# While there is no room for one more, in seconds: others may free memory, and do not say so.
_LOOK_AGAIN = 1.0


@dataclass
class WorkerPool:
    """Workers by their settings, at most `limit` of them, and no more than memory allows.

    `memory` returns how many bytes are available now, or None. One worker is always allowed. It is
    safe to use from several threads. `fetch` gets entries of the store that a worker wants.
    Workers start in `folder`, by default in that of this process.
    """

    hello: Hello
    import_root: Path
    limit: int
    memory: Callable[[], int | None] = available_memory
    fetch: Callable[[str], bool] | None = None
    folder: Path | None = None
    stopped: bool = False
    _idle: list[Worker] = field(default_factory=list)
    _busy: list[Worker] = field(default_factory=list)
    _broken: dict[Path | None, str] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._budget = self.memory()

    def take(self, settings: Settings) -> Worker:
        """Return an idle worker with these settings, or a new one as soon as there is room for it.

        NotStarted if its interpreter cannot be run, or if an earlier process of it was no worker.
        """
        with self._changed:
            while True:
                if self.stopped:
                    raise CancelledError
                self._drop_exited()
                fitting = [w for w in self._idle if w.settings == settings]
                if fitting:
                    worker = fitting[0]
                    self._idle.remove(worker)
                    break
                if self._has_room(settings):
                    worker = self._start(settings)
                    break
                self._make_room()
            self._busy.append(worker)
        return worker

    def give_back(self, worker: Worker) -> None:
        """Keep a worker for the next job, if it may run one."""
        if worker.settings.process.one_job:
            self.discard(worker)
            return
        with self._changed:
            self._busy.remove(worker)
            self._idle.append(worker)
            self._changed.notify_all()

    def discard(self, worker: Worker, exited: WorkerExited | None = None) -> None:
        """End a worker that cannot be used again; `exited` is how it ended, if it did by itself."""
        worker.close()
        with self._changed:
            self._busy.remove(worker)
            if isinstance(exited, NotStarted):
                self._broken[worker.settings.toolchain.interpreter] = str(exited)
            self._changed.notify_all()

    def stop(self) -> None:
        """Start no more workers, and kill those at work."""
        with self._changed:
            self.stopped = True
            for worker in self._busy:
                worker.kill("the build was stopped")
            self._changed.notify_all()

    def close(self) -> None:
        """End all idle workers."""
        while self._idle:
            self._idle.pop().close()

    def _start(self, settings: Settings) -> Worker:
        interpreter = settings.toolchain.interpreter
        if interpreter in self._broken:
            raise NotStarted(self._broken[interpreter])
        return Worker(settings, self.hello, self.import_root, fetch=self.fetch, folder=self.folder)

    def _drop_exited(self) -> None:
        """Forget idle workers that exited: the system kills large processes, at work or not."""
        for worker in [worker for worker in self._idle if not worker.is_alive]:
            self._idle.remove(worker)
            worker.close()

    def _has_room(self, settings: Settings) -> bool:
        """Return whether one more worker fits: into the limit, and into the memory then and now."""
        alive = [*self._idle, *self._busy]
        if not alive:
            return True
        needed = settings.process.memory
        planned = needed + sum(worker.settings.process.memory for worker in alive)
        free = self.memory()
        fits = self._budget is None or free is None or (planned <= self._budget and needed <= free)
        return len(alive) < self.limit and fits

    def _make_room(self) -> None:
        """End an idle worker, or wait until another thread gives one back."""
        if not self._idle:
            self._changed.wait(_LOOK_AGAIN)
            return
        surplus = self._idle.pop(0)
        self._changed.release()
        try:
            surplus.close()
        finally:
            self._changed.acquire()


def most_jobs(environment: Mapping[str, str]) -> int:
    """Return how many compilers may run at a time: AOTBUILD_JOBS, or one for each usable CPU."""
    text = environment.get(JOBS_VARIABLE)
    if not text:
        return usable_cpus()
    if not is_count(text):
        msg = f"{JOBS_VARIABLE}: expected a whole number from 1 to 999,999, found {cut(text, 60)!r}"
        raise PlanError(msg)
    return int(text)


@contextmanager
def open_pool(
    hello: Hello,
    import_root: Path,
    most: int,
    jobs: int | None = None,
    fetch: Callable[[str], bool] | None = None,
) -> Iterator[tuple[WorkerPool, Executor]]:
    """Yield a pool for at most `most` jobs at a time, and the executor whose threads wait for it.

    There are no more workers than `jobs`, by default `most_jobs`. Leaving the block ends all of
    them; an exception kills them. `fetch` is the pool's.
    """
    limit = min(jobs or most_jobs(os.environ), most)
    pool = WorkerPool(hello, import_root, limit, fetch=fetch)
    threads = ThreadPoolExecutor(limit)
    try:
        yield pool, threads
    except BaseException:  # Ctrl-C too: do not wait for compilers whose result nobody wants
        pool.stop()
        raise
    finally:
        # A worker dies with the thread that started it, and then has no time to end what the user's
        # code left running.
        pool.close()
        threads.shutdown(cancel_futures=True)
        pool.close()
