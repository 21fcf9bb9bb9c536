"""Work in several threads: all of it, in one if there is no other, and given up when unwanted."""

from __future__ import annotations

import threading

import pytest
from support.processes import fresh

from aotbuild.runtime.concurrency import JoinableThread, SingleFlight, parallel_map


def test_two_threads_that_wait_for_each_other() -> None:
    """As if a signal handler wanted what waits for what it interrupted."""
    flight: SingleFlight[str] = SingleFlight()
    meeting = threading.Barrier(2)

    def get(one: str, other: str) -> str:
        def make() -> str:
            meeting.wait(60)
            return one + flight.get(other, lambda: other)

        return flight.get(one, make)

    pairs = [("a", "b"), ("b", "a")]
    found = dict(zip(pairs, parallel_map(lambda pair: get(*pair), pairs, 2), strict=True))
    assert len(found) == 2
    kept = {key: flight.get(key, lambda: "made again") for key in "ab"}
    assert "made again" not in kept.values()
    assert sorted(found.values()) == sorted(kept.values())


def test_threads_that_want_what_their_starter_holds() -> None:
    """As if a signal handler preloaded while the code that it interrupted loads."""
    flight: SingleFlight[int] = SingleFlight()

    def make() -> int:
        return sum(parallel_map(lambda number: flight.get("key", lambda: number), [1, 2], 2))

    assert flight.get("key", make) in (1, 2)


def test_a_thread_that_wants_what_its_starter_holds() -> None:
    """As if it read constants ahead for a signal handler, and the interrupted code reads one."""
    flight: SingleFlight[int] = SingleFlight()

    def make() -> int:
        reader = JoinableThread("reader", lambda: flight.get("key", lambda: 1) and None)
        assert reader.start()
        assert reader.wait()
        return 2

    assert flight.get("key", make) == 1


def test_many_wait_for_one() -> None:
    flight: SingleFlight[int] = SingleFlight()
    made: list[int] = []

    def make() -> int:
        made.append(threading.get_ident())
        threading.Event().wait(0.05)
        return len(made)

    assert {*parallel_map(lambda _: flight.get("key", make), range(16), 16)} == {1}


def test_each_item_once() -> None:
    assert sorted(parallel_map(lambda n: n * 2, range(1000), 4)) == [*range(0, 2000, 2)]


def test_no_item() -> None:
    assert [*parallel_map(lambda n: n, [], 4)] == []


@pytest.mark.parametrize(("items", "threads"), [(1, 4), (4, 1)])
def test_one_at_a_time_is_done_here(items: int, threads: int) -> None:
    where = {*parallel_map(lambda _: threading.get_ident(), range(items), threads)}
    assert where == {threading.get_ident()}


def test_several_at_once() -> None:
    meeting = threading.Barrier(3)
    assert [*parallel_map(lambda _: bool(meeting.wait(60) + 1), range(3), 3)] == [True] * 3


class Refused(threading.Thread):
    """A thread that cannot be started, as at the end of a process from Python 3.12 on."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Thread", Refused)
    done = [*parallel_map(lambda n: (n, threading.get_ident()), range(3), 3)]
    assert done == [(n, threading.get_ident()) for n in range(3)]


MANY = 100_000


class Slow:
    """Work that takes a minute for all of it, so that whoever gives it up is in time."""

    def __init__(self, *, fails: bool) -> None:
        self.begun = 0
        self._fails = fails

    def __call__(self, number: int) -> None:
        self.begun += 1
        threading.Event().wait(0.001)
        if self._fails:
            raise KeyError(number)


def test_what_is_raised_is_raised_here_and_ends_it() -> None:
    work = Slow(fails=True)
    with pytest.raises(KeyError):
        [*parallel_map(work, range(MANY), 2)]
    assert work.begun < MANY


def test_what_nobody_wants_is_not_begun() -> None:
    work = Slow(fails=False)
    results = parallel_map(work, range(MANY), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert work.begun < MANY


@pytest.mark.process
def test_the_end_of_the_process_ends_it() -> None:
    """What was begun ends; a pool of concurrent.futures would do the rest before."""
    code = """
import atexit, json, threading
from aotbuild.runtime.preloading import Preloading
from aotbuild.runtime.concurrency import parallel_map
begun = []

def work(goes_on):
    def one(number):
        if goes_on():
            begun.append(number)
            threading.main_thread().join()
    return len([*parallel_map(one, range(100_000), 2)])

atexit.register(lambda: print(json.dumps(len(begun) <= 2)))
Preloading(work)
"""
    assert fresh(code) is True


@pytest.mark.process
def test_the_end_of_the_process_ends_what_a_daemon_wants() -> None:
    """And waits for what was begun: no daemon does it, which would be ended inside XLA."""
    code = """
import atexit, json, threading
from aotbuild.runtime.concurrency import parallel_map
begun, first = [], threading.Event()

def one(number):
    begun.append(threading.current_thread().daemon)
    first.set()
    threading.main_thread().join()

def wanted():
    [*parallel_map(one, range(100_000), 2)]

atexit.register(lambda: print(json.dumps(len(begun) <= 2 and not any(begun))))
threading.Thread(target=wanted, daemon=True).start()
first.wait()
"""
    assert fresh(code) is True


@pytest.mark.process
def test_the_main_thread_may_end_before_others() -> None:
    """What a daemon does for one of these is wanted still."""
    code = """
import json, threading
from aotbuild.runtime.concurrency import parallel_map

def wanted():
    threading.main_thread().join()
    print(json.dumps(sorted(parallel_map(lambda number: number, range(5), 2))), flush=True)

# Both begin here: from Python 3.12 on no thread can be started after the main one.
daemon = threading.Thread(target=wanted, daemon=True)
daemon.start()
threading.Thread(target=daemon.join).start()
"""
    assert fresh(code) == [0, 1, 2, 3, 4]


@pytest.mark.process
def test_an_interrupt_ends_it() -> None:
    code = """
import json, os, signal, threading
from aotbuild.runtime.concurrency import parallel_map
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
begun = []

def work(number):
    begun.append(number)
    if number == 0:
        os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(0.001)

try:
    [*parallel_map(work, range(100_000), 2)]
except KeyboardInterrupt:
    print(json.dumps(len(begun) < 100_000))
"""
    assert fresh(code) is True
