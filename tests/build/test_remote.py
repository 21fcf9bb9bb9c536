"""What a build sends to an executor, and what it does with what comes back, or does not."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from support.projects import MANIFEST, write_project

from aotbuild.build.events import Event, UnitBusy, UnitDone
from aotbuild.build.executors import chosen, dask, machines, remote
from aotbuild.build.executors.driver import run_units
from aotbuild.build.executors.machine import run_packet
from aotbuild.build.executors.machines import Machines, Unusable, WorkerLost
from aotbuild.build.plan import make_plan
from aotbuild.build.protocol import to_line
from aotbuild.build.replies import CompileStarted, Failed, Imported
from aotbuild.build.requests import Message
from aotbuild.build.sources import TracedFiles, find_sources
from aotbuild.errors import PlanError
from aotbuild.format.canonical import sha256_hex
from aotbuild.manifest import load_manifest
from aotbuild.store.entry import Entry, write_entry
from aotbuild.store.layers import open_store
from aotbuild.toolchains.toolchain import probe

Answer = dict[str, Any]
Reply = Callable[[Answer, bytes | None], Answer]


class Scripted(Executor):
    """An executor that gives the next reply to each call; an exception is the call's."""

    def __init__(self, *replies: Reply | BaseException) -> None:
        self.replies: Iterator[Reply | BaseException] = iter(replies)
        self.calls: list[tuple[Answer, bytes | None]] = []
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        assert fn is run_packet
        assert not kwargs
        packet, bundle = args
        # Plain data, without a class of ours.
        assert json.loads(json.dumps(packet)) == packet
        self.calls.append((packet, bundle))
        future: Future[Any] = Future()
        self.futures.append(future)
        reply = next(self.replies, None)
        if isinstance(reply, CancelledError):
            future.cancel()
        elif isinstance(reply, BaseException):
            future.set_exception(reply)
        elif reply is not None:
            future.set_result(reply(packet, bundle))
        return future


def answer(*messages: Message, **more: Any) -> Answer:
    lines = [(float(at), to_line(message)) for at, message in enumerate(messages)]  # type: ignore[arg-type]
    return {
        "messages": lines,
        "outcome": {"exited": None, "overtime": None, "golden_seconds": 0.0},
        "machine": "node7",
        "root": "/there/projects/abc",
        "entries": {},
        "blobs": {},
        **more,
    }


def refuses(_: Answer, __: bytes | None) -> Answer:
    """Reply that the unit failed, as a trace that raises does."""
    return answer(
        CompileStarted(target="cpu:x86-64-v3:1"),
        Imported(files=(("proj/m.py", "ab" * 32),)),
        Failed(
            target="cpu:x86-64-v3:1",
            stage="trace",
            error="no way\n  at /there/projects/abc/proj/m.py:1 in f",
        ),
    )


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PAUSE", 0.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    text = (
        "version: 1\npackage: proj\ntargets: [{cpu: {isa: [x86-64-v3]}}]\n"
        "functions: {f: {call: 'proj.m:f', args: [x: 'f32[n]'], dims: {n: [1, 2]}}}\n"
    )
    root = write_project(tmp_path / "p", text, m="def f(x): return x")
    (root / "blobs-here").mkdir()
    return root


def run(root: Path, executor: Executor | str, jobs: int = 1, **more: Any) -> list[UnitDone]:
    manifest = load_manifest(root / MANIFEST)
    listener = more.pop("listener", lambda _: None)
    return run_units(
        *(make_plan(manifest, probe()), find_sources(root, "proj"), root / "blobs-here"),
        *(listener, executor),
        jobs=jobs,
        **more,
    )


def texts(done: list[UnitDone]) -> list[str]:
    return [str(result.failure) for result in done]


# --- what goes there and comes back ---------------------------------------------------------------


def test_messages_come_as_if_they_were_from_here(root: Path) -> None:
    events: list[Event] = []
    traced = TracedFiles()
    done = run(root, Scripted(refuses, refuses), listener=events.append, traced=traced)
    expected = f"f(n=1) for cpu:x86-64-v3:1: trace:\n    no way\n      at {root}/proj/m.py:1 in f"
    assert texts(done)[0] == expected
    said = [event for event in events if isinstance(event, UnitBusy)]
    words = ["connecting to Scripted", "", "waiting for Scripted", "waiting for Scripted"]
    assert [event.doing for event in said] == words
    assert [event.waits for event in said] == [True, False, True, True]
    assert traced.files == {"proj/m.py": "ab" * 32}
    assert done[0].seconds == 2.0


def test_variables_and_paths_of_this_machine_stay(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    executor = Scripted(refuses, refuses)
    run(root, executor)
    (packet, bundle), _ = executor.calls
    assert "hush" not in json.dumps(packet)
    assert isinstance(bundle, bytes)
    places = packet["hello"].pop("secret_paths")  # which no byte may contain there, either
    assert str(root) in places
    assert str(root) not in json.dumps(packet)
    assert "blobs" not in packet["hello"]
    assert {packet["aotbuild"], packet["settings"]["platform"]} == {"0.1.0", "cpu"}


def test_a_machine_that_lacks_the_source_gets_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "SMALL", 0)

    def lacks(packet: Answer, _: bytes | None) -> Answer:
        return {"lacks": packet["bundle"]}

    executor = Scripted(lacks, refuses, refuses)
    run(root, executor)
    digest = executor.calls[0][0]["bundle"]
    given = [bundle for _, bundle in executor.calls]
    assert given[0] is given[2] is None
    assert isinstance(given[1], bytes)
    assert sha256_hex(given[1]) == digest
    assert len({packet["id"] for packet, _ in executor.calls}) == 3


def test_blobs_and_entries_are_checked_and_kept(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(remote, "_LARGE", 5)
    key, data = "ab" * 32, b"executable"
    raw = write_entry(key, Entry({}, data))
    digests = {text: sha256_hex(text) for text in (data, b"other", b"tiny")}
    blobs = {
        f"{digests[data]}.pjrt": [key, len(data)],
        f"{digests[b'other']}.safetensors": b"other",
        f"{digests[b'tiny']}.json": b"tiny",
    }

    def with_files(packet: Answer, bundle: bytes | None) -> Answer:
        return {**refuses(packet, bundle), "entries": {key: raw}, "blobs": blobs}

    executor = Scripted(with_files, refuses)
    with open_store({"AOTBUILD_STORE": str(tmp_path / "store")}) as layers:
        run(root, executor, layers=layers)
        found = layers.store.get(key)
    assert found is not None
    assert found.data == data
    for text, digest in digests.items():
        (path,) = (root / "blobs-here/blobs").glob(f"{digest}.*")
        assert path.read_bytes() == text
    # What is large need not come back for another signature of the function.
    have = [name for name in blobs if not name.endswith(".json")]
    assert executor.calls[1][0]["have"] == sorted(have)


@pytest.mark.parametrize("name", ["../../evil", f"{'ab' * 32}.pjrt", "x.pjrt"])
def test_a_blob_that_is_not_what_it_says_costs_an_attempt(
    root: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def damaged(packet: Answer, bundle: bytes | None) -> Answer:
        return {**refuses(packet, bundle), "blobs": {name: b"damaged"}}

    first, second = texts(run(root, Scripted(damaged, refuses, refuses)))
    assert "no way" in first
    assert "no way" in second
    assert f"node7: the blob {name} arrived damaged; it is tried again elsewhere" in caplog.text
    assert [*(root / "blobs-here").rglob("*evil*")] == []


def test_a_compiler_that_exits_there_fails_its_unit(root: Path) -> None:
    exited = {"text": "it died of SIGSEGV\nlog", "crashed": False, "started": True}
    outcome = {"exited": exited, "overtime": None, "golden_seconds": 0.0}
    died = Scripted(lambda *_: answer(outcome=outcome), refuses)
    assert texts(run(root, died))[0] == (
        "f(n=1) for cpu:x86-64-v3:1: trace:\n    on node7: it died of SIGSEGV\n    log"
    )


# --- what may go wrong ----------------------------------------------------------------------------


def test_a_lost_worker_costs_nothing_but_time(root: Path) -> None:
    executor = Scripted(WorkerLost("gone"), refuses, WorkerLost("gone"), refuses)
    assert ["no way" in text for text in texts(run(root, executor))] == [True, True]
    assert len(executor.calls) == 4


def test_a_unit_that_loses_two_workers_fails_and_the_others_go_on(root: Path) -> None:
    executor = Scripted(WorkerLost("node1 is gone"), WorkerLost("node2 is gone"), refuses)
    first, second = texts(run(root, executor))
    assert first == (
        "f(n=1) for cpu:x86-64-v3:1: start:\n    2 workers were lost while they worked at it; the "
        "last: node2 is gone"
    )
    assert "no way" in second


def fails(machine: str, text: str = "No space left on device") -> Reply:
    return lambda *_: {"failed": text, "machine": machine}


def with_damaged_entry(packet: Answer, bundle: bytes | None) -> Answer:
    return {**refuses(packet, bundle), "machine": "node1", "entries": {"ab" * 32: b"damaged"}}


@pytest.mark.parametrize("first", [fails("node1"), with_damaged_entry])
def test_a_machine_that_fails_costs_an_attempt_and_a_warning(
    root: Path, first: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    executor = Scripted(first, refuses, refuses)
    events: list[Event] = []
    found = texts(run(root, executor, listener=events.append))
    assert ["no way" in text for text in found] == [True, True]
    assert len([event for event in events if isinstance(event, UnitDone)]) == 2
    (warning,) = caplog.messages
    assert warning.startswith("f(n=1): node1: ")
    assert warning.endswith("; it is tried again elsewhere")


def test_a_unit_that_two_machines_fail_at_fails_and_the_others_go_on(root: Path) -> None:
    executor = Scripted(fails("node1"), fails("node2"), refuses)
    first, second = texts(run(root, executor))
    assert first == (
        "f(n=1) for cpu:x86-64-v3:1: start:\n    2 of the machines failed at it, 2 times in all; "
        "the last: node2: No space left on device"
    )
    assert "no way" in second


def test_the_only_machine_is_asked_a_few_times(root: Path) -> None:
    executor = Scripted(*[fails("node1")] * 4, refuses)
    first, second = texts(run(root, executor))
    assert "1 of the machines failed at it, 4 times in all; the last: node1: No space" in first
    assert "no way" in second


def test_what_a_machine_cannot_write_comes_back_as_its_failure(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = Scripted(refuses, refuses)
    run(root, executor)
    (packet, bundle), _ = executor.calls
    (tmp_path / "file").touch()
    monkeypatch.setenv("AOTBUILD_TOOLCHAINS", str(tmp_path / "file"))  # no folder can be below it
    found = run_packet(packet, bundle)
    assert found["machine"] == socket.gethostname()
    assert str(tmp_path / "file") in found["failed"]


def test_what_an_executor_raises_for_one_call_fails_its_unit(root: Path) -> None:
    first, second = texts(run(root, Scripted(ValueError("odd"), refuses)))
    assert first.endswith("start:\n    Scripted: ValueError: odd")
    assert "no way" in second


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (BrokenProcessPool("it ended."), "Scripted broke: it ended; build again"),
        (
            ModuleNotFoundError("No module named 'aotbuild'", name="aotbuild"),
            r"Scripted: No module named 'aotbuild': install aotbuild\[build\] there, in this vers",
        ),
        (Unusable("sbatch: no partition"), "Scripted: sbatch: no partition"),
        (CancelledError(), "Scripted canceled the jobs"),
        (lambda *_: {"refused": "node7 has aotbuild 0"}, "Scripted: node7 has aotbuild 0"),
    ],
)
def test_what_no_call_survives_is_one_error(
    root: Path, problem: Reply | BaseException, text: str
) -> None:
    # The other attempt waits for ever.
    executor = Scripted(problem)
    with pytest.raises(PlanError, match=text):
        run(root, executor, jobs=2)
    assert executor.futures[-1].cancelled() or executor.futures[-1].done()


def test_machines_that_do_not_work_any_more_end_the_wait(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Machines):
        def problem(self) -> str | None:
            return "dask://x: the scheduler has not answered for 60 s"

    monkeypatch.setattr(remote, "_LOOK_AGAIN", 0.01)
    monkeypatch.setattr(chosen, "Machines", Silent)
    executor = Scripted()
    with pytest.raises(PlanError, match=r"^dask://x: the scheduler has not answered"):
        run(root, executor, jobs=2)
    assert all(future.cancelled() for future in executor.futures)


def test_an_interrupted_build_cancels_what_is_queued(root: Path) -> None:
    executor = Scripted(refuses)

    def interrupt(event: Event) -> None:
        if len(executor.futures) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(root, executor, listener=interrupt)
    assert all(future.done() for future in executor.futures)


@pytest.mark.parametrize("text", ["ray://x", "dask", "/tmp/x"])
def test_a_name_that_is_none(root: Path, text: str) -> None:
    with pytest.raises(PlanError) as caught:
        run(root, text)
    assert str(caught.value) == (
        f"executor: expected local, dask://HOST:PORT or slurm://, found {text!r} (--executor, or "
        "AOTBUILD_EXECUTOR)"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dask://", "expected dask://HOST:PORT, or dask://HOST:PORT[?]wait=SECONDS"),
        ("dask://h", "expected dask://HOST:PORT"),
        ("dask://h:port", "expected dask://HOST:PORT"),
        ("dask://h:1/path", "expected dask://HOST:PORT"),
        ("dask://h:1?weit=3", "expected dask://HOST:PORT"),
        ("dask://h:1?wait=soon", "wait: expected seconds, found 'soon'"),
        ("slurm://host", "expected slurm://[?]partition=NAME&time=MINUTES"),
        ("slurm://?time=1:00:00", "expected slurm://[?]partition=NAME&time=MINUTES"),
    ],
)
def test_options_that_are_none(root: Path, text: str, found: str) -> None:
    with pytest.raises(PlanError, match=found):
        run(root, text)


@pytest.mark.process
def test_a_scheduler_that_does_not_come_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "_CONNECT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
    for query, seconds in (("", "0.1"), ("?wait=0.2", "0.2")):
        with pytest.raises(PlanError) as caught:
            run(root, f"dask://{place}{query}")
        assert str(caught.value) == (
            f"dask://{place}{query}: no scheduler of Dask at tcp://{place} within {seconds} s: "
            "Connection refused; start it, or wait longer with ?wait=SECONDS"
        )


def test_the_variable_decides_where_nothing_else_does(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTBUILD_EXECUTOR", "ray://x")
    with pytest.raises(PlanError, match="found 'ray://x'"):
        run(root, "")
    assert len(run(root, Scripted(refuses, refuses))) == 2
