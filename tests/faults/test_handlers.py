"""Signal handlers that come in the middle of loads, calls and imports."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.multiples import ARRAYS, FUNCTIONS, X, is_right, write_multiples
from support.processes import fresh

import aotbuild
from aotbuild.runtime.library import Library


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_multiples(tmp_path_factory.mktemp("handlers"))
    for arrays in ("jax", "numpy"):  # what the very first call imports has tests of its own
        assert is_right(aotbuild.load(folder, arrays=arrays), 0)
    return folder


# --- signals --------------------------------------------------------------------------------------


@pytest.fixture
def handle() -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Set what is done when SIGUSR1 comes."""
    old = signal.getsignal(signal.SIGUSR1)
    yield lambda work: signal.signal(signal.SIGUSR1, lambda *_: work()) and None
    signal.signal(signal.SIGUSR1, old)


# Where a signal comes: at the n-th line of Python that a first call runs.
LINES = [1, 10, 50, 100, 200, 400, 800, 1600]


def at_line(number: int, work: Callable[[], None]) -> Any:
    """Return a trace function that calls `work` at a line of aotbuild, once."""
    left = [number]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if "aotbuild" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                work()
        return trace

    return trace


def call_with_a_signal(library: Library, line: int) -> Any:
    """Return the result of a call of `f0` that a signal interrupts at a line."""
    old = sys.gettrace()
    sys.settrace(at_line(line, lambda: signal.raise_signal(signal.SIGUSR1)))
    try:
        return library.f0(X)
    finally:
        sys.settrace(old)


@ARRAYS
@pytest.mark.parametrize("line", LINES)
def test_a_handler_that_calls_in_the_middle_of_a_first_call(
    folder: Path, arrays: str, line: int, handle: Any
) -> None:
    """Other functions are served; the same one is, too, or jaxlib refuses the recursion."""
    library: Library = aotbuild.load(folder, arrays=arrays)
    found: list[Any] = []

    def work() -> None:
        found.append(is_right(library, 1))
        try:
            found.append(is_right(library, 0))
        except RecursionError as err:
            found.append("Recursively calling jit" in str(err))

    handle(work)
    result = call_with_a_signal(library, line)
    signal.raise_signal(signal.SIGUSR1)
    assert np.asarray(result).tolist() == [1.0] * 8
    assert found == [True] * len(found)
    assert len(found) in (2, 4)


@ARRAYS
@pytest.mark.parametrize("line", LINES)
def test_a_handler_that_raises_in_the_middle_of_a_first_call(
    folder: Path, arrays: str, line: int, handle: Any
) -> None:
    """As Ctrl-C does: the next call is right."""
    library: Library = aotbuild.load(folder, arrays=arrays)

    class Stop(BaseException):
        pass

    def work() -> None:
        raise Stop

    handle(work)
    with suppress(Stop):
        call_with_a_signal(library, line)
    assert all(is_right(library, number) for number in (0, 1, 0))


@ARRAYS
@pytest.mark.parametrize("line", LINES)
def test_a_handler_that_closes_in_the_middle_of_a_first_call(
    folder: Path, arrays: str, line: int, handle: Any
) -> None:
    library: Library = aotbuild.load(folder, arrays=arrays)
    handle(library.close)
    assert np.asarray(call_with_a_signal(library, line)).tolist() == [1.0] * 8
    assert all(is_right(library, number) for number in (0, 1, 0))


@ARRAYS
@pytest.mark.cause(32)
@pytest.mark.parametrize("line", LINES)
def test_a_handler_that_preloads_in_the_middle_of_a_first_call(
    folder: Path, arrays: str, line: int, handle: Any
) -> None:
    """It waits for threads, which want what the interrupted call holds."""
    library: Library = aotbuild.load(folder, arrays=arrays)
    found: list[int] = []
    handle(lambda: found.append(library.preload(threads=4)))
    assert np.asarray(call_with_a_signal(library, line)).tolist() == [1.0] * 8
    signal.raise_signal(signal.SIGUSR1)
    assert sum(found) <= FUNCTIONS
    assert all(is_right(library, number) for number in (0, 1))


@ARRAYS
@pytest.mark.cause(32)
@pytest.mark.parametrize("line", LINES)
def test_a_handler_that_wants_what_another_thread_makes(
    folder: Path, arrays: str, line: int, handle: Any
) -> None:
    """The thread may wait for what the interrupted call holds, and the handler for the thread."""
    library: Library = aotbuild.load(folder, arrays=arrays)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(is_right(library, 1)))

    def work() -> None:
        thread.start()
        thread.join(timeout=0.2)
        found.append(is_right(library, 1))

    handle(work)
    assert np.asarray(call_with_a_signal(library, line)).tolist() == [1.0] * 8
    if not found:  # the call has fewer lines
        work()
    thread.join()
    assert found == [True, True]


# An import of jax in another thread stops at each of these modules, until a handler has called.
STOPS = (
    *("jax", "jax._src.config", "jax._src.lib", "jaxlib.xla_client", "jax._src.core"),
    *("jax._src.api", "jax._src.pjit", "jax._src.lax", "jax._src.xla_bridge", "jax.numpy"),
)
IMPORTING = """
import importlib.util, json, queue, signal, sys, threading
import numpy as np
import aotbuild
x = np.arange(8, dtype=np.float32)
stops, reached, go_on = json.loads(sys.argv[2]), queue.SimpleQueue(), queue.SimpleQueue()
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name not in stops or threading.current_thread() is not importer:
            return None
        stops.remove(name)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def wait_and_execute(module):
            reached.put(name)
            go_on.get()
            execute(module)
        spec.loader.exec_module = wait_and_execute
        return spec
sys.meta_path.insert(0, Finder())
known = aotbuild.load(sys.argv[1], arrays="numpy")
assert known.f1(x)[1] == 2
found, depth = {}, []
def handler(*_):
    depth.append(None)
    if len(depth) == 1:
        signal.raise_signal(signal.SIGUSR1)  # in the middle of itself
    new = aotbuild.load(sys.argv[1], arrays="numpy")
    other = getattr(known, f"f{3 + len(found) % 5}")  # cold at first
    found[name].append([known.f1(x)[1], new.f2(x)[1], other(x)[0]])
    new.preload()
    depth.pop()
signal.signal(signal.SIGUSR1, handler)
def work():
    try:
        import jax
        found["jit"] = jax.jit(lambda x: x * 2)(x).tolist() == (x * 2).tolist()
        found["x64"] = str(jax.jit(lambda: jax.numpy.ones(1, float))().dtype)
    finally:
        reached.put("")
importer = threading.Thread(target=work)
importer.start()
while name := reached.get():
    found[name] = []
    signal.raise_signal(signal.SIGUSR1)
    go_on.put(None)
importer.join()
import jax
with jax.enable_x64(True):
    found["enabled"] = str(jax.jit(lambda: jax.numpy.ones(1, float))().dtype)
found["after"] = aotbuild.load(sys.argv[1]).f2(x).tolist() == (x * 2 + 1).tolist()
jax.config.update("jax_enable_x64", True)
try:
    known.f1(x)
except aotbuild.errors.NoExecutable as err:
    found["refused"] = "jax_enable_x64" in str(err)
print(json.dumps(found, default=float))
"""


@pytest.fixture(scope="module")
def importing(folder: Path) -> Any:
    return fresh(IMPORTING, str(folder), json.dumps(STOPS))


@pytest.mark.process
@pytest.mark.cause(21)
@pytest.mark.parametrize("stop", STOPS)
def test_a_handler_that_calls_while_another_thread_imports_jax(importing: Any, stop: str) -> None:
    """In the middle of itself, too; neither waits for the import."""
    assert importing[stop] == [[2.0, 3.0, 1.0]] * 2


@pytest.mark.process
@pytest.mark.cause(21)
def test_the_settings_of_jax_win(importing: Any) -> None:
    found = importing
    assert (found["jit"], found["x64"], found["enabled"]) == (True, "float32", "float64")
    assert (found["after"], found["refused"]) == (True, True)


# --- imports --------------------------------------------------------------------------------------

# The first call of a process; each module that it imports begins with a signal to a handler.
FIRST_CALL = """
import importlib.util, json, signal, sys
import numpy as np
import aotbuild
arrays, found, names = sys.argv[2], [], []
x = np.arange(8, dtype=np.float32)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ("aotbuild", "jax", "jaxlib") or name in names:
            return None
        names.append(name)
        spec = importlib.util.find_spec(name)
        execute = getattr(getattr(spec, "loader", None), "exec_module", None)
        def interrupted(module):
            signal.raise_signal(signal.SIGUSR1)
            execute(module)
        if execute:
            spec.loader.exec_module = interrupted
        return spec
library = aotbuild.load(sys.argv[1], arrays=arrays)
busy = []
def handler(*_):
    if busy:
        return
    busy.append(None)
    for number in (0, 1):
        try:
            found.append(getattr(library, f"f{number}")(x)[1] == 1 + number)
        except aotbuild.errors.AotbuildError as err:
            found.append(str(err).startswith("nothing can be loaded by a signal handler"))
        except RecursionError as err:  # of the function that is called already
            found.append("Recursively calling jit" in str(err) and number == 0)
        except Exception as err:
            found.append(repr(err))
    busy.clear()
signal.signal(signal.SIGUSR1, handler)
sys.meta_path.insert(0, Finder())
right = library.f0(x).tolist() == [1.0] * 8
sys.meta_path.pop(0)
after = [getattr(library, f"f{number}")(x)[1] for number in range(3)]
print(json.dumps([right, sorted(set(map(str, found))), len(found), after], default=float))
"""


@ARRAYS
@pytest.mark.process
@pytest.mark.parametrize("imports", ["numpy", "jax"])
def test_a_handler_that_calls_in_the_middle_of_an_import(
    folder: Path, arrays: str, imports: str
) -> None:
    """It was an ImportError of half a module."""
    code = FIRST_CALL.replace("import numpy as np", f"import {imports}\nimport numpy as np")
    right, found, count, after = fresh(code, str(folder), arrays)
    assert (right, found, after) == (True, ["True"], [1.0, 2.0, 3.0])
    assert count > 20


# An exception of a handler may leave Python's import lock taken: here a thread has it for ever.
IMPORT_LOCK = """
import _imp, json, os, sys, threading
import numpy as np
os.environ.pop("JAX_PLATFORMS", None)  # else no platform is looked for
import aotbuild
library = aotbuild.load(sys.argv[1], arrays=sys.argv[2])
x = np.arange(8, dtype=np.float32)
call = lambda number: found.append(float(np.asarray(getattr(library, f"f{number}")(x))[1]))
found, taken = [], threading.Event()
def take():
    _imp.acquire_lock()
    taken.set()
    threading.Event().wait()  # another thread might get the identity of one that ended
def work():
    for number in range(4):
        call(number)
    library.close()
    call(0)
call(0)
threading.Thread(target=take, daemon=True).start()
taken.wait()
thread = threading.Thread(target=work, daemon=True)
thread.start()
thread.join(30)
print(json.dumps(found), flush=True)
os._exit(0)
"""


@ARRAYS
@pytest.mark.process
def test_calls_after_the_first_need_no_import_lock(folder: Path, arrays: str) -> None:
    """Each call of a new function asked whether jax has plugins."""
    assert fresh(IMPORT_LOCK, str(folder), arrays) == [1.0, 1.0, 2.0, 3.0, 4.0, 1.0]
