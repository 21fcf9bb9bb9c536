"""Attempts on other machines: what goes there, what comes back, and what happens if it does not."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from aotbuild.build.attempt import Exited, Outcome, Request, Tell
from aotbuild.build.executors.bundle import Bundle
from aotbuild.build.executors.machines import MOST_LOST, Lost, Machines
from aotbuild.build.executors.packet import make_packet, outcome_from_json
from aotbuild.build.protocol import read_reply
from aotbuild.build.replies import Busy, Reply
from aotbuild.build.requests import Hello
from aotbuild.errors import PlanError
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.files import write_whole
from aotbuild.store.entry import DamagedEntry, check_entry
from aotbuild.store.folder import Folder
from aotbuild.toolchains.exact import ExactToolchain
from aotbuild.toolchains.toolchain import Toolchain

# Attempts in flight: an executor has its own queue, and clusters grow by what is in it.
_MOST_WAITING = 1000
# Blobs of so many bytes, as constants that all signatures share, come back once.
_LARGE = 1_000_000
_LOOK_AGAIN = 1.0
_SHOWN = 5
# An executor may give an attempt to the machine that has just failed at it: so often, after a pause
# in seconds in which others may take it.
_MOST_FAILED, _PAUSE = 4, 1.0
_LOG = logging.getLogger("aotbuild")
_BLOB = re.compile(r"([0-9a-f]{64})\.[a-z]+")


class _MachineFailed(Exception):
    """An attempt failed for a reason that only its machine has, or what came back is damaged."""

    def __init__(self, machine: str, text: str) -> None:
        super().__init__(f"{machine}: {text}")
        self.machine = machine


class Remote:
    """Runs attempts on machines. Safe to use from several threads."""

    def __init__(
        self,
        machines: Machines,
        hello: Hello,
        bundle: Bundle,
        toolchains: Mapping[Toolchain, ExactToolchain],
    ) -> None:
        self._machines, self._hello, self._bundle = machines, hello, bundle
        self._toolchains, self._id = toolchains, os.urandom(8).hex()
        self._given = machines.give(bundle)
        # Ends all waiting: with an error, if the machines have one.
        self._stopped: Future[None] = Future()
        self._waiting: set[threading.Event] = set()
        self._large: dict[str, set[str]] = {}
        self._lost: list[str] = []
        self._lock = threading.Lock()

    def attempt(self, request: Request, tell: Tell) -> Outcome:
        """Run one attempt somewhere, and again if its worker is lost or its machine fails.

        PlanError if the machines cannot work at all, CancelledError if the build was stopped.
        """
        tell(Busy(doing=f"waiting for {self._machines.name}", waits=True))
        given, lost, text = self._given.data, 0, ""
        failed: list[str] = []
        while lost < MOST_LOST and len({*failed}) < MOST_LOST and len(failed) < _MOST_FAILED:
            try:
                answer = self._answer(request, given, tell)
            except Exception as err:  # noqa: BLE001 (an executor may raise anything)
                verdict = self._judge(err)
                if not isinstance(verdict, Lost):
                    return verdict
                lost, text = lost + verdict.count, verdict.text
                self._lost.append(f"{request.job.label}: {text}")
                continue
            if "lacks" in answer:
                given = self._bundle.data
                continue
            try:
                return self._receive(request, answer, tell)
            except _MachineFailed as err:
                text = str(err)
                _LOG.warning("%s: %s; it is tried again elsewhere", request.job.label, text)
                failed.append(err.machine)
                self._pause()
        what = f"{lost} workers were lost while they worked at it"
        if len(failed) >= MOST_LOST:
            what = f"{len({*failed})} of the machines failed at it, {len(failed)} times in all"
        return Outcome(Exited(f"{what}; the last: {text}", started=False))

    def stop(self, error: BaseException | None = None) -> None:
        """End all waiting, and cancel what is queued."""
        with self._lock:
            if not self._stopped.done():
                self._stopped.set_exception(error or CancelledError())
            for ended in self._waiting:
                ended.set()

    def watch(self, ended: threading.Event) -> None:
        """Look after the machines until the build has ended."""
        while not ended.wait(_LOOK_AGAIN):
            if problem := self._machines.problem():
                self.stop(PlanError(problem + self._losses()))
                return

    def _answer(self, request: Request, given: bytes | None, tell: Tell) -> dict[str, Any]:
        have = self._large.get(request.job.name, set())
        toolchain = self._toolchains[request.settings.toolchain]
        packet = make_packet(
            *(self._id, self._hello, request, toolchain, self._bundle, have),
            file=self._given.file,
        )
        future = self._machines.submit(packet, given, tell)
        # Not `wait`, which misses a future that an executor cancels while it shuts down.
        with self._until_stopped() as ended:
            future.add_done_callback(lambda _: ended.set())
            ended.wait()
        if not future.done():
            future.cancel()
            self._stopped.result()
        return future.result()

    def _pause(self) -> None:
        with self._until_stopped() as ended:
            ended.wait(_PAUSE)

    @contextmanager
    def _until_stopped(self) -> Iterator[threading.Event]:
        """Yield an event that is set when the build is stopped."""
        ended = threading.Event()
        with self._lock:
            self._waiting.add(ended)
            if self._stopped.done():
                ended.set()
        try:
            yield ended
        finally:
            with self._lock:
                self._waiting.discard(ended)

    def _losses(self) -> str:
        lines = "".join(f"\n  {text}" for text in self._lost[-_SHOWN:])
        return f"\nworkers that were lost before, and what they worked at:{lines}" if lines else ""

    def _judge(self, error: Exception) -> Lost | Outcome:
        """Return what an error of the executor means for this attempt; raise if for all."""
        if self._stopped.done():
            self._stopped.result()
        if isinstance(error, CancelledError):
            text = self._machines.problem() or f"{self._machines.name} canceled the jobs"
            self.stop(PlanError(text))
            self._stopped.result()
        verdict = self._machines.judge(error)
        if isinstance(verdict, Lost):
            return verdict
        if verdict is not None:
            self.stop(PlanError(verdict.text))
            self._stopped.result()
        text = f"{self._machines.name}: {type(error).__name__}: {error}"
        return Outcome(Exited(text, started=False))

    def _receive(self, request: Request, answer: dict[str, Any], tell: Tell) -> Outcome:
        """Keep what an attempt made, and tell its messages; _MachineFailed if it is damaged."""
        if "refused" in answer:
            self.stop(PlanError(f"{self._machines.name}: {answer['refused']}"))
            self._stopped.result()
        if "failed" in answer:
            raise _MachineFailed(answer["machine"], answer["failed"])
        # Nothing is kept or told of an answer that is damaged anywhere.
        blobs = _checked_blobs(answer)
        messages, outcome = self._read(answer)
        self._keep_entries(answer["entries"])
        self._keep_blobs(request.job.name, blobs)
        for at, message in messages:
            tell(message, at)
        return outcome

    def _read(self, answer: dict[str, Any]) -> tuple[list[tuple[float, Reply]], Outcome]:
        """Return the messages of an answer, each with its time, and its outcome."""
        messages = [
            (at, read_reply(self._as_here(line, answer))) for at, line in answer["messages"]
        ]
        outcome = json.loads(self._as_here(json.dumps(answer["outcome"]), answer))
        if outcome["exited"]:
            outcome["exited"]["text"] = f"on {answer['machine']}: {outcome['exited']['text']}"
        return messages, outcome_from_json(outcome)

    def _as_here(self, text: str, answer: dict[str, Any]) -> str:
        """Return JSON with the paths of the project's files on this machine, for its user."""
        there, here = (json.dumps(str(path))[1:-1] for path in (answer["root"], self._hello.root))
        return text.replace(there, here)

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


def _checked_blobs(answer: dict[str, Any]) -> dict[str, bytes]:
    """Return the blobs of an answer; _MachineFailed unless they and its entries are intact."""
    machine, blobs = answer["machine"], {}
    for key, raw in answer["entries"].items():
        try:
            check_entry(raw, key)
        except DamagedEntry as err:
            text = f"the entry {key} of the store arrived damaged: {err}"
            raise _MachineFailed(machine, text) from err
    for name, found in answer["blobs"].items():
        data = found if isinstance(found, bytes) else _tail(answer["entries"], *found)
        expected = _BLOB.fullmatch(name)
        if expected is None or sha256_hex(data) != expected[1]:
            raise _MachineFailed(machine, f"the blob {name} arrived damaged")
        blobs[name] = data
    return blobs


def _tail(entries: Mapping[str, bytes], key: str, size: int) -> bytes:
    return entries[key][-size:] if size else b""


@contextmanager
def open_remote(remote: Remote, most: int, jobs: int | None) -> Iterator[Executor]:
    """Yield an executor whose threads wait for attempts, at most `jobs` of them at a time.

    An exception in the block cancels what is queued.
    """
    threads = ThreadPoolExecutor(min(jobs or _MOST_WAITING, most))
    ended = threading.Event()
    watching = threading.Thread(target=remote.watch, args=(ended,), daemon=True)
    watching.start()
    try:
        yield threads
    except BaseException:  # Ctrl-C too
        remote.stop()
        raise
    finally:
        threads.shutdown(cancel_futures=True)
        ended.set()
        watching.join()
