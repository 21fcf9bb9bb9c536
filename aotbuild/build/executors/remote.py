"""Attempts on other machines: what goes there, what comes back, and what happens if it does not."""

from __future__ import annotations

import json
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
from aotbuild.build.protocol import Busy, Hello, read_reply
from aotbuild.errors import PlanError
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.files import write_whole
from aotbuild.store.entry import check_entry
from aotbuild.store.folder import Folder
from aotbuild.toolchains.exact import ExactToolchain
from aotbuild.toolchains.toolchain import Toolchain

# Attempts in flight: an executor has its own queue, and clusters grow by what is in it.
_MOST_WAITING = 1000
# Blobs of so many bytes, as constants that all signatures share, come back once.
_LARGE = 1_000_000
_LOOK_AGAIN = 1.0
_SHOWN = 5
_BLOB = re.compile(r"([0-9a-f]{64})\.[a-z]+")


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
        self._large: dict[str, set[str]] = {}
        self._lost: list[str] = []
        self._lock = threading.Lock()

    def attempt(self, request: Request, tell: Tell) -> Outcome:
        """Run one attempt somewhere, and again elsewhere if its worker is lost.

        PlanError if the machines cannot work at all, CancelledError if the build was stopped.
        """
        tell(Busy(doing=f"waiting for {self._machines.name}", waits=True))
        given, lost, text = self._given, 0, ""
        while lost < MOST_LOST:
            try:
                answer = self._answer(request, given, tell)
            except Exception as err:  # noqa: BLE001 (an executor may raise anything)
                verdict = self._judge(err)
                if not isinstance(verdict, Lost):
                    return verdict
                lost, text = lost + verdict.count, verdict.text
                self._lost.append(f"{request.job.label}: {text}")
                continue
            if "lacks" not in answer:
                return self._receive(request, answer, tell)
            given = self._bundle.data
        text = f"{lost} workers were lost while they worked at it; the last: {text}"
        return Outcome(Exited(text, started=False))

    def stop(self, error: BaseException | None = None) -> None:
        """End all waiting, and cancel what is queued."""
        with self._lock:
            if not self._stopped.done():
                self._stopped.set_exception(error or CancelledError())

    def watch(self, ended: threading.Event) -> None:
        """Look after the machines until the build has ended."""
        while not ended.wait(_LOOK_AGAIN):
            if problem := self._machines.problem():
                self.stop(PlanError(problem + self._losses()))
                return

    def _answer(self, request: Request, given: bytes | str | None, tell: Tell) -> dict[str, Any]:
        have = self._large.get(request.job.name, set())
        toolchain = self._toolchains[request.settings.toolchain]
        packet = make_packet(self._id, self._hello, request, toolchain, self._bundle, have)
        future = self._machines.submit(packet, given, tell)
        # Not `wait`, which misses a future that an executor cancels while it shuts down.
        ended = threading.Event()
        for either in (future, self._stopped):
            either.add_done_callback(lambda _: ended.set())
        ended.wait()
        if not future.done():
            future.cancel()
            self._stopped.result()
        return future.result()

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
        """Keep what an attempt made, and tell its messages."""
        if "refused" in answer:
            self.stop(PlanError(f"{self._machines.name}: {answer['refused']}"))
            self._stopped.result()
        self._keep_entries(answer["entries"])
        self._keep_blobs(request.job.name, answer)
        for at, line in answer["messages"]:
            tell(read_reply(self._as_here(line, answer)), at)
        outcome = json.loads(self._as_here(json.dumps(answer["outcome"]), answer))
        if outcome["exited"]:
            outcome["exited"]["text"] = f"on {answer['machine']}: {outcome['exited']['text']}"
        return outcome_from_json(outcome)

    def _as_here(self, text: str, answer: dict[str, Any]) -> str:
        """Return JSON with the paths of the project's files on this machine, for its user."""
        there, here = (json.dumps(str(path))[1:-1] for path in (answer["root"], self._hello.root))
        return text.replace(there, here)

    def _keep_entries(self, entries: Mapping[str, bytes]) -> None:
        if self._hello.store is None:
            return
        folder = Folder(self._hello.store)
        for key, raw in entries.items():
            check_entry(raw, key)
            if not folder.has(key):
                with suppress(OSError):  # as workers do: a store that is full fails no build
                    folder.write(key, raw)

    def _keep_blobs(self, function: str, answer: dict[str, Any]) -> None:
        for name, found in answer["blobs"].items():
            data = found if isinstance(found, bytes) else _tail(answer["entries"], *found)
            expected = _BLOB.fullmatch(name)
            if expected is None or sha256_hex(data) != expected[1]:
                msg = f"{answer['machine']}: the blob {name} arrived damaged; build again"
                raise PlanError(msg)
            path = self._hello.blobs / "blobs" / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
            if len(data) >= _LARGE:
                with self._lock:
                    self._large.setdefault(function, set()).add(name)


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
