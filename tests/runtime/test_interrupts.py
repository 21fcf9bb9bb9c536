"""What comes in the middle: signal handlers and finalizers that call, Ctrl-C while it is waited."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.packages import build, write
from support.processes import fresh

import aotbuild
from aotbuild.runtime.concurrency import JoinableThread, SingleFlight
from aotbuild.runtime.package import Stats

X = np.arange(4, dtype=np.float32)


class Signalled:
    """The signal that a handler of the test waits for, raised flight at most."""

    def __init__(self) -> None:
        self.handler: Callable[[], Any] = lambda: None
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        if self.count == 1:
            signal.raise_signal(signal.SIGUSR1)


@pytest.fixture
def signalled() -> Iterator[Signalled]:
    made = Signalled()
    old = signal.signal(signal.SIGUSR1, lambda *_: made.handler())
    yield made
    signal.signal(signal.SIGUSR1, old)


class TestHandlers:
    def test_what_is_being_made_is_made_for_it(self, signalled: Signalled) -> None:
        flight, given = SingleFlight[list[int]](), []

        def make() -> list[int]:
            signalled()
            return []

        signalled.handler = lambda: given.append(flight.get("key", make))
        assert flight.get("key", make) is given[0]
        assert flight.get("key", make) is given[0]

    def test_a_failure_for_it_is_none_for_others(self, signalled: Signalled) -> None:
        flight = SingleFlight[int]()

        def make() -> int:
            signalled()
            return 7

        def fail() -> None:
            with pytest.raises(ZeroDivisionError):
                flight.get("key", lambda: 1 // 0)

        signalled.handler = fail
        assert flight.get("key", make) == 7

    def test_counting_in_the_middle_of_counting(self, signalled: Signalled) -> None:
        stats = Stats()

        class Name(str):
            __slots__ = ()

            def __hash__(self) -> int:  # asked for while the counter is raised
                signalled()
                return super().__hash__()

        signalled.handler = lambda: stats.count("padded")
        stats.count(Name("misses"))
        assert signalled.count > 1
        assert stats.to_dict()["padded"] == 1

    def test_a_logging_handler_may_call_what_is_being_looked_for(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
        decorated = aotbuild.precompiled("no_such_package:f")(jax.jit(lambda x: x * 2))
        told: list[Any] = []

        def calls(record: Any) -> bool:
            if not told:
                told.append(record)
                told.append(decorated(X))
            return True

        monkeypatch.setattr(caplog.handler, "filters", [calls])
        np.testing.assert_array_equal(decorated(X), X * 2)
        np.testing.assert_array_equal(told[1], X * 2)


class Pair:
    """A tree that a handler comes into the middle of, as it is put together."""

    comes: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, first: Any, second: Any) -> None:
        self.leaves = (first, second)


def _put_together(_: None, leaves: Any) -> Pair:
    Pair.comes()
    return Pair(*leaves)


jax.tree_util.register_pytree_node(Pair, lambda pair: (pair.leaves, None), _put_together)


def test_a_call_while_kernels_are_told_of_zeros(
    tmp_path: Path, signalled: Signalled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is run: not every call that is made meanwhile is one of zeros."""
    built = build("f", lambda x: x * 2, {"x": X}), build("p", _total, {"p": Pair(X, X)})
    library = aotbuild.load(write(tmp_path, built))
    results: list[Any] = []
    signalled.handler = lambda: results.append(library.f(X))
    monkeypatch.setattr(Pair, "comes", signalled)
    library.preload("p", prime=True)
    np.testing.assert_array_equal(results[0], X * 2)
    np.testing.assert_array_equal(library.p(Pair(X, X)), X * 2)
    assert library.stats()["misses"] == 1


def test_a_call_with_a_static_value_of_the_one_that_is_told(
    tmp_path: Path, signalled: Signalled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small number is the same object in both, and no zero."""
    pair = build("p", lambda x, n: Pair(x * n, x), {"x": X}, statics={"n": 2})
    library = aotbuild.load(write(tmp_path, [pair, build("i", lambda i: i * 10, {"i": 0})]))
    results: list[Any] = []
    signalled.handler = lambda: results.append(int(library.i(2)))
    monkeypatch.setattr(Pair, "comes", signalled)
    library.preload("p", prime=True)
    assert results == [20]
    np.testing.assert_array_equal(library.p(X, n=2).leaves[0], X * 2)
    assert library.stats()["misses"] == 1


def _total(p: Pair) -> Any:
    return p.leaves[0] + p.leaves[1]


class TestJoinableThread:
    def test_the_wait_for_its_end(self) -> None:
        go_on = threading.Event()
        thread = JoinableThread("thread", lambda: [go_on.wait(60), None][1])
        assert thread.ended
        assert thread.start()
        assert (thread.ended, thread.wait(0)) == (False, False)
        go_on.set()
        assert (thread.wait(), thread.ended) == (True, True)

    def test_no_thread_to_be_had(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        thread = JoinableThread("thread", lambda: None)
        assert not thread.start()
        assert thread.wait()

    @pytest.mark.process
    def test_it_is_not_waited_for_in_a_process_that_was_forked(self) -> None:
        code = """
import json, os, threading, warnings
from aotbuild.runtime.concurrency import JoinableThread
warnings.simplefilter("ignore")
go_on = threading.Event()
thread = JoinableThread("thread", go_on.wait)
thread.start()
child = os.fork()
if not child:
    os._exit(not thread.wait())
status = os.waitpid(child, 0)[1]
go_on.set()
print(json.dumps([thread.wait(), status]))
"""
        assert fresh(code) == [True, 0]

    @pytest.mark.process
    def test_ctrl_c_ends_the_wait_and_not_the_thread(self) -> None:
        """Neither does the end of the process forget it: what it does then is seen."""
        code = """
import os, signal, threading
from aotbuild.runtime.preloading import Preloading
go_on = threading.Event()

def interrupt(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # flight is enough
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)

def work(_):
    main = threading.main_thread().ident
    # Again and again: the first may come before the main thread waits.
    while not go_on.wait(0.001):
        signal.pthread_kill(main, signal.SIGINT)
    threading.main_thread().join()
    print("null", flush=True)

loading = None
try:
    loading = Preloading(work)
    loading.wait()
except KeyboardInterrupt:
    done = loading is not None and loading.done
    go_on.set()
    assert not done
"""
        assert fresh(code) is None


def test_two_that_close_at_once(tmp_path: Path) -> None:
    """What one lists, the other takes away."""
    library = aotbuild.load(write(tmp_path, [build("f", lambda x: x * 2, {"x": X})]))

    class Name(str):
        """A name that is looked at while the other thread is at work."""

        __slots__ = ()

        def startswith(self, *prefix: Any) -> bool:
            library.__dict__.pop("f", None)
            return super().startswith(*prefix)

    library.__dict__[Name("g")] = None
    assert library.f in library.__dict__.values()
    library.close()
    np.testing.assert_array_equal(library.f(X), X * 2)
