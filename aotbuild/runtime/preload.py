"""Preloading: executables are made ready before anybody calls them, and run once on zeros if asked.

The same for both doors. jaxlib lets go of the interpreter while it deserializes and while it runs,
and hashlib while it hashes, so threads do help: two were seen at work at once, on 0.10.2 (in
threads of XLA's own) and on 0.12.0.1.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from aotbuild.errors import AotbuildError
from aotbuild.frozen import dataclass
from aotbuild.runtime.concurrency import Worker, side_by_side
from aotbuild.runtime.loader import Loader
from aotbuild.runtime.select import Verdict
from aotbuild.runtime.stats import Stats
from aotbuild.spec.record import Record

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Placement

# Told of each executable that was run, with what it gave: (its record, itself, its outputs).
Told: TypeAlias = Callable[[Record, Any, list[Any]], None]

# What makes a thread see the settings of another one.
Settings: TypeAlias = Callable[[], AbstractContextManager[None]]

# Two programs that start in another order on each device of a mesh wait for each other forever.
_MESHES = threading.RLock()
# glibc gives each thread a heap of its own, and takes large blocks from it only when some came back
# (mallopt(3), M_MMAP_THRESHOLD): the third run gets all its memory there. benchmarks/preload.py.
_RUNS = 3
_REMEDY = "Leave its function out: name the others, preload('this', 'that', prime=True)."


@dataclass(frozen=True)
class Job:
    """An executable that fits, and where a call without committed arguments would run it."""

    verdict: Verdict
    placement: Placement

    @property
    def record(self) -> Record:
        """The record of the executable."""
        return self.verdict.record

    @property
    def runs(self) -> bool:
        """Whether it can be run here alone: the processes of a group would have to do it as one."""
        return self.record.requires.processes == 1


@dataclass(frozen=True)
class _Done:
    """What became of jobs with the same bytes: whether these were new, and the outputs if run."""

    is_new: bool
    ran: tuple[tuple[Job, Any, list[Any]], ...]
    failures: tuple[AotbuildError, ...]


def preload(
    loader: Loader,
    jobs: Iterable[Job],
    stats: Stats,
    threads: int | None,
    prime: Told | None,
    *,
    settings: Settings = nullcontext,
    goes_on: Callable[[], bool] | None = None,
) -> int:
    """Make executables ready; return how many were loaded that were not before.

    With `prime` each is run once on zeros, and told of in the calling thread, where the largest is
    run again unless `goes_on` is given: then the thread is one that will serve no calls, and begins
    with no other executable when that returns False. `settings` are those of the door for all
    threads. One that fails does not stop the others: what they raise is raised at the end, all of
    it in one AotbuildError.
    """

    def ready(group: Sequence[Job]) -> _Done:
        with settings():
            return _ready(loader, group if not goes_on or goes_on() else [], stats, prime)

    failures: list[AotbuildError] = []
    count, largest = 0, _Largest()
    for done in side_by_side(ready, _by_bytes(jobs), threads or _cpus()):
        count += done.is_new
        failures += done.failures
        if prime:
            failures += _tell(prime, done)
            largest.see(done)
        del done
    if goes_on is None:
        failures += largest.warm_this_thread()
    if failures:
        raise _joined(failures)
    return count


class _Largest:
    """The executable with the largest arguments: a heap that served it serves all the others."""

    def __init__(self) -> None:
        self._size = 0
        self._found: tuple[Record, Any] | None = None

    def see(self, done: _Done) -> None:
        for job, executable, _ in done.ran:
            size = sum(math.prod(aval.shape) for aval in job.record.signature.leaves)
            if size > self._size and job.record.requires.devices == 1:
                self._size, self._found = size, (job.record, executable)

    def warm_this_thread(self) -> Iterator[AotbuildError]:
        """Let the calling thread, which may be the one that calls later, have a heap that fits."""
        if self._found is None:
            return
        record, executable = self._found
        try:
            for _ in range(_RUNS):
                executable.run_on_zeros()
        except Exception as err:  # noqa: BLE001 - raised at the end, as those of _run
            yield _on_zeros(record, err)


def _by_bytes(jobs: Iterable[Job]) -> list[list[Job]]:
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.record.blob.sha256, job.placement.devices), []).append(job)
    return list(groups.values())


def _ready(loader: Loader, group: Sequence[Job], stats: Stats, prime: Told | None) -> _Done:
    """Load what jobs of the same bytes and devices need, and run each of them if asked."""
    ran: list[tuple[Job, Any, list[Any]]] = []
    failures: list[AotbuildError] = []
    is_new = False
    for job in group:
        try:
            is_new |= loader.load_bytes(job.record, job.placement.devices)
            executable = loader.load(job.verdict, job.placement)
            if prime and job.runs:
                outputs = _run(job.record, executable, stats)
                ran.append((job, executable, outputs))
        except AotbuildError as err:
            failures.append(err)
    return _Done(is_new, tuple(ran), tuple(failures))


def _run(record: Record, executable: Any, stats: Stats) -> list[Any]:
    try:
        with _alone(record):
            start = perf_counter()
            outputs: list[Any] = executable.run_on_zeros()
    except Exception as err:  # XlaRuntimeError, FloatingPointError of jax_debug_nans, MemoryError …
        raise _on_zeros(record, err) from err
    stats.primed(perf_counter() - start)
    return outputs


def _alone(record: Record) -> AbstractContextManager[Any]:
    return _MESHES if record.requires.devices > 1 else nullcontext()


def _on_zeros(record: Record, err: Exception) -> AotbuildError:
    found = f"{type(err).__name__}: {err}"
    return AotbuildError(f"{record}: it cannot be run on zeros\n  found    {found}\n{_REMEDY}")


def _tell(prime: Told, done: _Done) -> Iterator[AotbuildError]:
    for job, executable, outputs in done.ran:
        try:
            with _alone(job.record):
                prime(job.record, executable, outputs)
        except AotbuildError as err:
            yield err
        except Exception as err:  # noqa: BLE001 - raised at the end, as those of _run
            yield _on_zeros(job.record, err)


def _joined(failures: Sequence[AotbuildError]) -> AotbuildError:
    if len(failures) == 1:
        return failures[0]
    lines = [f"- {err}".replace("\n", "\n  ") for err in failures]
    title = f"{len(failures)} executables could not be preloaded; the others are ready"
    error = AotbuildError("\n".join([title, *lines]))
    error.__cause__ = failures[0]
    return error


def _cpus() -> int:
    """Return on how many CPUs this process may run."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


# Given whether to go on; returns how many executables were loaded.
Work = Callable[[Callable[[], bool]], int]


class Preloading:
    """What `Library.preload(wait=False)` returns. A call waits for what it needs by itself."""

    def __init__(self, work: Work) -> None:
        self._count = 0
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._worker = Worker("aotbuild-preload", lambda: self._run(work))
        if not self._worker.start():
            self._run(work)

    def wait(self, timeout: float | None = None) -> int:
        """Return how many executables this has loaded, when it has ended; raise what went wrong.

        TimeoutError if that takes more than `timeout` seconds; it goes on nevertheless.
        """
        if not self._worker.wait(timeout):
            msg = f"not all executables were ready after {timeout} s; they are still being loaded"
            raise TimeoutError(msg)
        if self._error is not None:
            raise self._error
        return self._count

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._worker.ended

    def stop(self) -> None:
        """Begin with no other executable, and wait until those that were begun are ready."""
        self._stopped.set()
        self._worker.wait()

    def _run(self, work: Work) -> None:
        try:
            self._count = work(self._goes_on)
        except BaseException as err:  # noqa: BLE001 - whatever it is, `wait` raises it
            self._error = err
            if self._goes_on():
                from logging import getLogger

                getLogger("aotbuild").warning("preload(wait=False): %s", err)

    def _goes_on(self) -> bool:
        """Return whether anybody can still want it: nobody at the end of the process."""
        return threading.main_thread().is_alive() and not self._stopped.is_set()
