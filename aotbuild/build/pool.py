"""Worker processes that are alive: kept for the next job with the same settings, or ended."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aotbuild.build.process import Worker, import_path
from aotbuild.build.worker_init import Settings, WorkerInit


@dataclass
class WorkerPool:
    """Workers by their settings, at most `limit` of them alive while no more are at work.

    Safe to use from several threads.
    """

    init: WorkerInit
    path: list[str]
    limit: int
    stopped: bool = False
    _idle: list[Worker] = field(default_factory=list)
    _busy: list[Worker] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, settings: Settings) -> Worker:
        """Return an idle worker with these settings, or start one in place of another."""
        with self._lock:
            if self.stopped:
                raise CancelledError
            fits = (w for w in self._idle if w.settings == settings)
            worker, surplus = next(fits, None), None
            if worker is not None:
                self._idle.remove(worker)
            else:
                full = self._idle and len(self._idle) + len(self._busy) >= self.limit
                surplus = self._idle.pop(0) if full else None
                worker = Worker(settings, self.init, self.path)
            self._busy.append(worker)
        if surplus is not None:
            surplus.close()
        return worker

    def give_back(self, worker: Worker) -> None:
        """Keep a worker for the next job."""
        with self._lock:
            self._busy.remove(worker)
            self._idle.append(worker)

    def discard(self, worker: Worker) -> None:
        """End a worker that cannot be used again."""
        with self._lock:
            self._busy.remove(worker)
        worker.close()

    def stop(self) -> None:
        """Start no more workers, and end those at work at once."""
        with self._lock:
            self.stopped = True
            for worker in self._busy:
                worker.kill()

    def close(self) -> None:
        """End all idle workers."""
        while self._idle:
            self._idle.pop().close()


@contextmanager
def open_pool(
    init: WorkerInit, import_root: Path, most: int, executor: Executor | None = None
) -> Iterator[tuple[WorkerPool, Executor]]:
    """Yield a pool for at most `most` jobs at a time, and threads to wait for them in.

    There are no more workers than CPUs. All are ended with the block; after an exception, at once.
    A given `executor` takes the place of threads of its own, and stays open.
    """
    limit = min(os.cpu_count() or 1, most)
    pool = WorkerPool(init, import_path(import_root), limit)
    threads = executor or ThreadPoolExecutor(limit)
    try:
        yield pool, threads
    except BaseException:  # Ctrl-C, for one: nobody waits for a compiler that is not wanted
        pool.stop()
        raise
    finally:
        if executor is None:
            threads.shutdown(cancel_futures=True)
        pool.close()
