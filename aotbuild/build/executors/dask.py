"""`dask://HOST:PORT`: the workers of a Dask cluster."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit
from uuid import uuid4

from aotbuild.build.attempt import Tell
from aotbuild.build.executors.bundle import Bundle
from aotbuild.build.executors.machine import receive_bundle, run_packet
from aotbuild.build.executors.machines import (
    MOST_LOST,
    SMALL,
    Fatal,
    Given,
    Lost,
    Machines,
    WorkerLost,
)
from aotbuild.build.executors.urls import shown_url
from aotbuild.build.jobs import Job
from aotbuild.build.replies import Busy
from aotbuild.errors import PlanError

# For a scheduler to be there; for it to answer a question; for a worker. In seconds.
_CONNECT, _SILENT, WAIT = 10.0, 30.0, 60.0
_PULSE = 1.0


@dataclass(eq=False)
class _Call:
    """A packet's future, and the workers that have begun it; `waits` is what was told of waiting.

    `tell` is called only while the packet is among those of `Tasks`, with its lock.
    """

    label: str
    tell: Tell
    future: Future[Any] = field(default_factory=Future)
    workers: list[str] = field(default_factory=list)
    waits: str = ""


class Tasks:
    """Packets as tasks of a cluster, which tries a task again if its worker is lost.

    A future raises WorkerLost where two workers were lost that had begun the packet. Dask's own
    count does not tell: it includes the tasks that only waited on a lost worker. Workers say by
    events what they do.
    """

    def __init__(self, client: Any, executor: Any, name: str) -> None:
        self._executor, self._name = executor, name
        self._topic = f"aotbuild-{uuid4().hex}"
        self._calls: dict[str, _Call] = {}
        self._lock = threading.Lock()
        client.subscribe_topic(self._topic, self._heard)

    def submit(
        self, packet: dict[str, Any], bundle: bytes | None, tell: Tell
    ) -> Future[dict[str, Any]]:
        """Have a packet run by some worker."""
        key = f"{self._topic}-{uuid4().hex}"
        call = _Call(Job.model_validate(packet["job"]).label, tell)
        self._calls[key] = call
        task = self._executor.submit(run_task, self._topic, key, packet, bundle, key=key)
        task.add_done_callback(partial(self._end, key))
        # Also where it has failed here: no further worker is to begin it.
        call.future.add_done_callback(lambda _: task.cancel())
        return call.future

    def look(self, workers: Collection[str]) -> None:
        """Fail the calls that have lost too many workers, and say what the others wait for.

        `workers` are those that are there.
        """
        waits = f"waiting for {self._name}{'' if workers else ', which has no worker'}"
        failed = []
        with self._lock:
            for key, call in [*self._calls.items()]:
                lost = [address for address in call.workers if address not in workers]
                if len(lost) >= MOST_LOST:
                    failed.append((self._calls.pop(key).future, lost))
                elif len(lost) == len(call.workers) and call.waits != waits:
                    call.waits = waits
                    call.tell(Busy(doing=waits, waits=True))
        for future, lost in failed:  # without the lock, which the end of their tasks needs
            _set(future, WorkerLost(f"the one at {lost[-1]}", len(lost)))

    def _heard(self, event: tuple[float, dict[str, str]]) -> None:
        """Take what a worker says of a call; first of all, that it has begun it."""
        said = event[1]
        with self._lock:
            call = self._calls.get(said["key"])
            if call is None:
                return
            worker, doing = said["worker"], said["doing"] or f"{call.label}: begun"
            call.waits = ""
            if worker not in call.workers:
                call.workers.append(worker)
            call.tell(Busy(doing=f"{doing} on {worker}"))

    def _end(self, key: str, task: Future[Any]) -> None:
        with self._lock:
            call = self._calls.pop(key, None)
        if call is None:
            return
        if task.cancelled():
            call.future.cancel()
        elif error := task.exception():
            _set(call.future, error)
        else:
            _set(call.future, None, task.result())


def _set(future: Future[Any], error: BaseException | None, result: Any = None) -> None:
    with suppress(InvalidStateError):  # it was canceled
        future.set_exception(error) if error else future.set_result(result)


def run_task(topic: str, key: str, packet: dict[str, Any], bundle: bytes | None) -> dict[str, Any]:
    """Run a packet, and say which worker has begun it, and then what it does."""
    from distributed import get_worker  # an extra

    worker = get_worker()

    def say(doing: str) -> None:
        worker.log_event(topic, {"key": key, "worker": worker.address, "doing": doing})

    say("")
    return run_packet(packet, bundle, say)


class DaskMachines(Machines):
    """A client of a scheduler; a thread asks it once a second who is there."""

    def __init__(self, client: Any, name: str, patience: float) -> None:
        # Impure: an attempt that is made again is no repetition that the cluster may leave out.
        super().__init__(client.get_executor(pure=False), name)
        self._tasks = Tasks(client, self.executor, name)
        self._client, self._patience = client, patience
        self._answered = self._had_workers = time.monotonic()
        self._closed = threading.Event()
        # A daemon: a scheduler that is gone may keep it waiting.
        threading.Thread(target=self._ask, daemon=True).start()

    def give(self, bundle: Bundle) -> Given:
        """Give a large bundle to all workers at once; those that come later ask for it."""
        if len(bundle.data) <= SMALL:
            return Given(bundle.data)
        self._client.run(receive_bundle, bundle.digest, bundle.data, on_error="ignore")
        return Given()

    def submit(
        self, packet: dict[str, Any], bundle: bytes | None, tell: Tell
    ) -> Future[dict[str, Any]]:
        """Have a packet run by some worker, which says by events of Dask what it does."""
        return self._tasks.submit(packet, bundle, tell)

    def judge(self, error: BaseException) -> Lost | Fatal | None:
        """Tell a lost worker from a cluster without aotbuild."""
        if type(error).__name__ == "KilledWorker":
            # Dask has given it up, but it may only have waited on workers that others ended.
            return Lost(1, str(error).partition(".")[0])
        if "No module named 'aotbuild" in f"{error} {error.__cause__}":
            return Fatal(
                f"{self.name}: aotbuild is not installed on its scheduler or on a worker: install "
                "aotbuild[build,dask] on all of them, in the version of this machine"
            )
        return super().judge(error)

    def problem(self) -> str | None:
        """Return that the scheduler is gone, is silent, or has no workers for too long."""
        if self._client.status != "running":
            return f"{self.name}: the connection to the scheduler was lost; build again"
        now = time.monotonic()
        if now - self._answered > _SILENT:
            return f"{self.name}: the scheduler has not answered for {_SILENT:g} s"
        if now - self._had_workers > self._patience:
            return (
                f"{self.name}: the scheduler has had no worker for {self._patience:g} s; start "
                f"some: dask worker {self._client.scheduler.address}"
            )
        return None

    def close(self) -> None:
        """Leave the cluster, which cancels what this build has not waited for."""
        self._closed.set()
        with suppress(Exception):  # the scheduler may be gone
            self._client.close(timeout=5)

    def _ask(self) -> None:
        while not self._closed.wait(_PULSE):
            with suppress(Exception):  # no answer is what counts
                workers = self._client.nthreads()
                self._answered = time.monotonic()
                if workers:
                    self._had_workers = self._answered
                self._tasks.look(workers)


def connect(text: str) -> DaskMachines:
    """Return the machines of a cluster; PlanError where its scheduler does not answer."""
    parts, shown = urlsplit(text), shown_url(text, ("wait",))
    options = dict(parse_qsl(parts.query))
    wait = options.pop("wait", None)
    patience = WAIT if wait is None else _seconds(shown, wait)
    if not _has_port(parts) or parts.path.strip("/") or options:
        expected = "dask://HOST:PORT, or dask://HOST:PORT?wait=SECONDS"
        msg = f"executor: expected {expected}, found {shown!r}"
        raise PlanError(msg)
    try:
        from distributed import Client  # slow, and an extra
    except ImportError as err:
        msg = f"{shown}: {err}; install aotbuild[dask]"
        raise PlanError(msg) from err
    address = f"tcp://{parts.netloc}"
    _await_port(shown, parts, patience if wait else _CONNECT)
    try:
        client = _in_time(partial(Client, address, timeout=_CONNECT, set_as_default=False))
    except Exception as err:  # whatever a server that is none of Dask's makes of it
        reason = str(err) or f"nothing within {_CONNECT:g} s"
        msg = f"{shown}: expected the answer of a scheduler of Dask at {address}, found {reason}"
        raise PlanError(msg) from err
    return DaskMachines(client, f"dask://{parts.netloc}", patience)


def _has_port(parts: SplitResult) -> bool:
    try:
        return bool(parts.hostname and parts.port)
    except ValueError:
        return False


def _await_port(text: str, parts: SplitResult, most: float) -> None:
    """Wait until a server is there; PlanError if there is none for so many seconds.

    Dask's own attempts come at longer and longer intervals, and leave a client that takes half a
    minute to end.
    """
    until = time.monotonic() + most
    while True:
        try:
            left = max(_PULSE, until - time.monotonic())
            socket.create_connection((parts.hostname, parts.port), min(left, _CONNECT)).close()
        except OSError as err:
            if time.monotonic() + _PULSE < until:
                time.sleep(_PULSE)
                continue
            msg = (
                f"{text}: no scheduler of Dask at tcp://{parts.netloc} within {most:g} s: "
                f"{err.strerror or err}; start it, or wait longer with ?wait=SECONDS"
            )
            raise PlanError(msg) from err
        return


def _in_time(make: Callable[[], Any]) -> Any:
    """Return what a function returns; TimeoutError if it does not.

    Dask waits for ever for a server that takes its connection and says nothing.
    """
    made: Future[Any] = Future()

    def run() -> None:
        try:
            _set(made, None, make())
        except Exception as err:  # noqa: BLE001 (it is raised by the caller)
            _set(made, err)

    threading.Thread(target=run, daemon=True).start()
    return made.result(_CONNECT + 2)


def _seconds(text: str, given: str) -> float:
    try:
        found = float(given)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        msg = f"executor: {text}: wait: expected seconds, found {given!r}"
        raise PlanError(msg)
    return found
