"""Threads, signals, garbage and callbacks that come in the middle of loads and calls."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from faults.multiples import ARRAYS, FUNCTIONS, X, is_right, write_multiples
from support.packages import build, write
from support.processes import fresh

import aotbuild
from aotbuild.errors import AotbuildError, PackageNotFound
from aotbuild.runtime.library import Library


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_multiples(tmp_path_factory.mktemp("threads"))


# --- threads --------------------------------------------------------------------------------------


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what so many threads return that begin at the same moment."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> Any:
        barrier.wait(60)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def calls(library: Library, number: int) -> bool:
    return all(is_right(library, (number + each) % FUNCTIONS) for each in range(20))


def reloads(library: Library, folder: Path, arrays: str) -> bool:
    for number in range(5):
        other: Library = aotbuild.load(folder, arrays=arrays)
        assert is_right(other, number)
        other.close()
    return is_right(library, 0)


MIXED: dict[str, Callable[[Library, Path, str, int], bool]] = {
    "calls": lambda library, _, __, number: calls(library, number),
    "first calls of one function": lambda library, *_: is_right(library, 0),
    "loads": lambda library, folder, arrays, _: reloads(library, folder, arrays),
    "closes": lambda library, *_: all((library.close(), is_right(library, 0))[1] for _ in range(5)),
    "preloads": lambda library, *_: library.preload(threads=2) >= 0 and is_right(library, 0),
    "preloads that are primed": lambda library, *_: (
        library.preload(prime=True) >= 0 and is_right(library, 0)
    ),
    "preloads in the background": lambda library, *_: (
        library.preload(wait=False).wait() >= 0 and is_right(library, 0)
    ),
    "collections": lambda library, *_: gc.collect() >= 0 and is_right(library, 0),
    "views": lambda library, _, arrays, number: is_right(
        library.on("cpu" if arrays == "numpy" else jax.devices()[0]), number % FUNCTIONS
    ),
    "explanations": lambda library, *_: library.explain("f0", X).chosen is not None,
    "refusals": lambda library, *_: refused(library),
    "counting": lambda library, *_: library.count_calls() is None and is_right(library, 1),
    "subscribers": lambda library, *_: subscribed(library),
    "forgotten caches": lambda library, *_: (
        library._state.backend.forget_calls() is None and is_right(library, 0)
    ),
}  # fmt: skip


def refused(library: Library) -> bool:
    try:
        library.f0(X[:3])
    except AotbuildError:
        return is_right(library, 0)
    return False


def subscribed(library: Library) -> bool:
    unsubscribe = aotbuild.subscribe(lambda _: None)
    library.close()
    found = is_right(library, 2)
    unsubscribe()
    return found


@ARRAYS
@pytest.mark.parametrize("what", MIXED)
def test_sixteen_threads_beside_callers(folder: Path, arrays: str, what: str) -> None:
    """Every second thread calls, while the others do something else."""
    library: Library = aotbuild.load(folder, arrays=arrays)

    def work(number: int) -> bool:
        if number % 2:
            return calls(library, number)
        return MIXED[what](library, folder, arrays, number)

    assert together(16, work) == [True] * 16


@ARRAYS
def test_threads_that_all_do_something_else(folder: Path, arrays: str) -> None:
    library: Library = aotbuild.load(folder, arrays=arrays)
    each = list(MIXED.values())
    found = together(len(each), lambda number: each[number](library, folder, arrays, number))
    assert found == [True] * len(each)


STACKS = [256 * 1024, 1024 * 1024, 64 * 1024 * 1024]


@ARRAYS
@pytest.mark.parametrize("size", STACKS)
def test_stacks_of_other_sizes(folder: Path, arrays: str, size: int) -> None:
    library: Library = aotbuild.load(folder, arrays=arrays)
    old = threading.stack_size(size)
    try:
        assert together(2, lambda number: is_right(library, number)) == [True, True]
    finally:
        threading.stack_size(old)


@ARRAYS
def test_a_thread_for_each_call(folder: Path, arrays: str) -> None:
    library: Library = aotbuild.load(folder, arrays=arrays)
    found: list[bool] = []
    for number in range(100):
        work = lambda number=number: found.append(is_right(library, number % FUNCTIONS))  # noqa: E731
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [True] * 100


@ARRAYS
def test_tasks_and_contexts(folder: Path, arrays: str) -> None:
    library: Library = aotbuild.load(folder, arrays=arrays)

    async def main() -> list[bool]:
        tasks = [asyncio.to_thread(is_right, library, number % FUNCTIONS) for number in range(32)]
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [True] * 32
    assert copy_context().run(is_right, library, 3)


def test_settings_of_one_thread_are_not_those_of_others(folder: Path) -> None:
    """With x64 in one of them, its calls are other calls, which the other's must not serve."""
    library: Library = aotbuild.load(folder)

    def work(number: int) -> bool:
        if number % 2:
            return calls(library, number)
        with jax.enable_x64(True):
            return refused_for_x64(library)

    assert together(4, work) == [True] * 4


def refused_for_x64(library: Library) -> bool:
    try:
        library.f0(X)
    except AotbuildError as err:
        return "x64" in str(err)
    return False


# --- garbage, callbacks, recursion ----------------------------------------------------------------


# Arrays that stay on the device: one thread reads them, another deletes them or gives them away.
READ = """
import json, sys, threading
import ml_dtypes, numpy as np
import aotbuild
library = aotbuild.load(sys.argv[1], arrays="numpy")
step, dtype, is_donated = library.step.keeping(), sys.argv[2], sys.argv[3] == "donated"
zeros = np.zeros(1 << 21, getattr(ml_dtypes, dtype, dtype))
seen, others = [], []

def read(array):
    try:
        found = np.asarray(array)
    except ValueError as err:
        seen.append("donated" in str(err))
    else:
        seen.append(found.dtype == zeros.dtype and bool((found == found[0]).all()))

for number in range(40):
    array = step(zeros)
    thread = threading.Thread(target=read, args=[array])
    thread.start()
    threading.Event().wait(0.0002 * (number % 8))
    others.append(step(array)) if is_donated else array.delete()
    thread.join()
    del others[:-1]
print(json.dumps([all(seen), len(seen)]))
"""


@pytest.mark.process
@pytest.mark.cause(33)
@pytest.mark.parametrize(
    ("dtype", "how"),
    [
        *((dtype, "deleted") for dtype in ("float32", "bfloat16", "float8_e4m3fn", "int4")),
        # XLA has no way to keep packed integers from being donated.
        *((dtype, "donated") for dtype in ("float32", "bfloat16", "float8_e4m3fn")),
    ],
)
def test_a_kept_array_that_is_gone_while_a_thread_reads_it(
    tmp_path: Path, dtype: str, how: str
) -> None:
    """XLA ended the process, or the numbers were those of other arrays."""
    x = np.zeros(1 << 21, getattr(ml_dtypes, dtype, dtype))
    built = build("step", lambda x: (x + x).astype(x.dtype), {"x": x}, donate=["x"])
    assert fresh(READ, str(write(tmp_path, [built])), dtype, how) == [True, 40]


@ARRAYS
@pytest.mark.parametrize("when", ["start", "stop"])
def test_a_collection_that_calls(folder: Path, arrays: str, when: str) -> None:
    library: Library = aotbuild.load(folder, arrays=arrays)
    found: list[bool] = []

    def on_collection(phase: str, _: Any) -> None:
        if phase == when and len(found) < 3:
            gc.callbacks.remove(on_collection)
            found.append(is_right(library, 1))

    old = gc.get_threshold()
    gc.callbacks.append(on_collection)
    gc.set_threshold(10, 1, 1)
    try:
        assert is_right(library, 0)
        gc.collect()
    finally:
        gc.set_threshold(*old)
    assert found == [True]


@ARRAYS
def test_a_finalizer_that_calls(folder: Path, arrays: str) -> None:
    library: Library = aotbuild.load(folder, arrays=arrays)
    found: list[bool] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self
            weakref.finalize(self, lambda: found.append(is_right(library, 1)))

    Cycle()
    old = gc.get_threshold()
    gc.set_threshold(5, 1, 1)
    try:
        assert is_right(library, 0)
    finally:
        gc.set_threshold(*old)
    gc.collect()
    assert found == [True]


CALLBACKS: dict[str, Callable[[Library, list[bool]], None]] = {
    "calls another function": lambda library, found: found.append(is_right(library, 1)),
    "loads": lambda library, found: found.append(
        is_right(aotbuild.load(library._state.source.place), 1)
    ),
    "closes": lambda library, found: found.append(library.close() is None),
    "preloads": lambda library, found: found.append(True) or library.preload(),  # type: ignore[func-returns-value]
    "asks": lambda library, found: found.append(bool(library.stats() and library.signatures("f1"))),
    "raises": lambda _, found: found.append(True) or 1 // 0,  # type: ignore[func-returns-value]
    "collects": lambda _, found: found.append(gc.collect() >= 0),
    "subscribes": lambda _, found: found.append(aotbuild.subscribe(print)() is None),
}  # fmt: skip


@ARRAYS
@pytest.mark.parametrize("what", CALLBACKS)
def test_a_subscriber(folder: Path, arrays: str, what: str) -> None:
    library: Library = aotbuild.load(folder, arrays=arrays)
    found: list[bool] = []
    unsubscribe = aotbuild.subscribe(lambda _: None if found else CALLBACKS[what](library, found))
    try:
        assert is_right(library, 0)
    finally:
        unsubscribe()
    assert found
    assert all(found)
    assert all(is_right(library, number) for number in (0, 1))


@ARRAYS
def test_a_logging_handler_that_calls(folder: Path, arrays: str) -> None:
    """A record of INFO says that a package was opened."""
    library: Library = aotbuild.load(folder, arrays=arrays)
    found: list[bool] = []

    class Handler(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            found.append(is_right(library, 1))

    logger, handler = logging.getLogger("aotbuild"), Handler()
    old = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        assert is_right(aotbuild.load(folder, arrays=arrays), 0)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(old)
    assert found
    assert all(found)


@ARRAYS
@pytest.mark.parametrize("left", [5, 10, 15, 20, 30, 40, 60, 80, 120])
def test_near_the_limit_of_recursion(folder: Path, arrays: str, left: int) -> None:
    """A first call works or raises RecursionError; no file is called damaged for it."""
    library: Library = aotbuild.load(folder, arrays=arrays)

    def deep() -> bool:
        try:
            return deep()
        except RecursionError:
            return True

    def at_depth(levels: int) -> Any:
        if levels:
            return at_depth(levels - 1)
        return is_right(library, 0), is_right(aotbuild.load(folder, arrays=arrays), 1)

    depth = len(list(iter_frames()))
    with suppress(RecursionError):
        assert at_depth(sys.getrecursionlimit() - depth - left) == (True, True)
    assert is_right(library, 0)
    assert deep()
    assert is_right(library, 0)


def iter_frames() -> Iterator[Any]:
    frame: Any = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


@ARRAYS
def test_errors_in_threads_are_those_of_the_caller(folder: Path, arrays: str) -> None:
    def work(number: int) -> str:
        try:
            aotbuild.load("no_such_package", arrays=arrays)
        except PackageNotFound as err:
            return err.package
        return str(number)

    assert together(8, work) == ["no_such_package"] * 8
