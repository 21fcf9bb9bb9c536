"""Processes that fork, end and run others at odd moments: results, one clear refusal, and an end.

One process opens the package, another has called it. Each experiment is a child of one of them.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
from support.forks import forked
from support.packages import build, write
from support.processes import fresh

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

if not hasattr(os, "fork"):
    pytest.skip("no os.fork here", allow_module_level=True)

BEGIN = """
import atexit, gc, json, multiprocessing, os, resource, signal, subprocess, sys, tempfile
import threading, warnings
from concurrent.futures import ProcessPoolExecutor
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import numpy as np
import aotbuild
from aotbuild.errors import AotbuildError
x = np.ones(4, np.float32)
def load():
    return aotbuild.load(sys.argv[1], arrays=sys.argv[2])
lib = load()
def call(name="f", library=None):
    return np.asarray(getattr(library or lib, name)(x)).tolist()[0]
def tried(work=call):
    try:
        return work()
    except AotbuildError as err:
        found = str(err)
        refusals = ("forked after XLA's threads", "forked during a first call")
        return "refused" if any(words in found for words in refusals) else found
def child(work=tried, end=lambda: sys.exit(3)):
    "Fork; return what the child answers, and how it ends: 60 seconds are a hang, which is -14."
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(60)
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(writing, json.dumps(work()).encode())
        os.close(writing)
        end()
        os._exit(99)  # `end` should not return
    os.close(writing)
    with open(reading) as answer:
        text = answer.read()
    return [json.loads(text or "null"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]
sys.modules["__main__"].call = call  # where pickle looks for it
def in_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start(), thread.join()
    return found[0] if found else None
def leave(code, *more):
    [each() for each in more]
    sys.exit(code)
def stop(number, handler=None):
    if handler:
        signal.signal(number, handler)
    os.kill(os.getpid(), number)
    signal.pause()
def fail():
    raise ValueError
def linger():
    "A thread that ends after the main one."
    threading.Thread(target=threading.main_thread().join).start()
    sys.exit(3)
def in_pool(context):
    with ProcessPoolExecutor(1, multiprocessing.get_context(context)) as pool:
        return tried(pool.submit(call).result)
def in_process():
    queue = multiprocessing.get_context("fork").SimpleQueue()
    process = multiprocessing.get_context("fork").Process(target=lambda: queue.put(tried()))
    process.start()
    answer = queue.get()
    process.join()
    return [answer, process.exitcode]
OTHER = '''import sys, aotbuild, numpy as np
library = aotbuild.load(sys.argv[1], arrays="numpy")
print(library.f(np.ones(4, np.float32)).tolist()[0])'''
def run_other(run=subprocess.check_output):
    return float(run([sys.executable, "-c", OTHER, sys.argv[1]], text=True))
class Last:
    __del__ = lambda _: call()
def execute():
    os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(7)"])
"""
# How a child ends that was refused, or that only inherited what its parent has: code, exit.
ENDS = {
    "sys.exit": ("sys.exit(3)", 3),
    "sys.exit without a code": ("sys.exit()", 0),
    "sys.exit with a text": ("sys.exit('no')", 1),
    "os._exit": ("os._exit(4)", 4),
    "an exception": ("fail()", 1),
    "SIGTERM": ("stop(signal.SIGTERM)", -15),
    "SIGTERM, handled": ("stop(signal.SIGTERM, lambda *_: sys.exit(5))", 5),
    "SIGINT": ("stop(signal.SIGINT)", -2),
    "SIGHUP": ("stop(signal.SIGHUP)", -1),
    "SIGKILL": ("stop(signal.SIGKILL)", -9),
    "after a collection": ("leave(3, gc.collect)", 3),
    "after close": ("leave(3, lib.close, gc.collect)", 3),
    "without the library": ("leave(3, lambda: globals().pop('lib'), gc.collect)", 3),
    "after another refusal": ("leave(3, tried, tried)", 3),
    "with a thread that goes on": ("linger()", 3),
    "sys.exit in a thread": ("leave(3, lambda: in_thread(lambda: sys.exit(8)))", 3),
    "os._exit in a thread": ("in_thread(lambda: os._exit(8))", 8),
    "an atexit function that calls": ("leave(3, lambda: atexit.register(tried))", 3),
    "an atexit function that raises": ("leave(3, lambda: atexit.register(fail))", 3),
    "exec": ("execute()", 7),
    "a child of its own": ("sys.exit(child()[1] + 1)", 4),
}
# What a child does whose parent has called: code, answer.
REFUSED = {
    "a call": ("tried()", "refused"),
    "another function": ("tried(lambda: call('g'))", "refused"),
    "in a thread": ("in_thread(tried)", "refused"),
    "a new library": ("tried(lambda: call(library=load()))", "refused"),
    "a preload": ("tried(lambda: load().preload())", "refused"),
    "an explanation": ("'forked after' in str(lib.explain('f', x))", True),
    "its own child": ("child()", ["refused", 3]),
    "its child's child": ("child(lambda: child())", [["refused", 3], 3]),
    "what needs no devices": ("[len(lib.functions), len(lib.signatures('f'))]", [2, 1]),
    "another program": ("run_other()", 2.0),
    "multiprocessing": ("in_process()", ["refused", 0]),
    "a pool": ("in_pool('fork')", "refused"),
}
# What a child does whose parent has opened the package only.
SERVED = {
    "a call": ("tried()", 2.0),
    "in a thread": ("in_thread(tried)", 2.0),
    "both functions": ("[tried(), tried(lambda: call('g'))]", [2.0, 3.0]),
    "a new library": ("call(library=load())", 2.0),
    "a preload, then a call": ("[lib.preload(), tried()]", [2, 2.0]),
    "a call after close": ("[tried(), lib.close(), tried()]", [2.0, None, 2.0]),
    "its own child, before it": ("[child(), tried()]", [[2.0, 3], 2.0]),
    "its own child, after it": ("[tried(), child()]", [2.0, ["refused", 3]]),
    "a pool": ("in_pool('fork')", 2.0),
    "multiprocessing": ("in_process()", [2.0, 0]),
    "another program": ("run_other()", 2.0),
    "no environment": ("[os.environ.clear(), tried()][1]", 2.0),
    "no folder to be in": (
        "[os.chdir(place := tempfile.mkdtemp()), os.rmdir(place), tried()][2]",
        2.0,
    ),
    "no stdin, stdout and stderr": ("[[os.close(fd) for fd in range(3)], tried()][1]", 2.0),
    "signals ignored": (
        "[signal.signal(signal.SIGTERM, signal.SIG_IGN) and None, tried()][1]",
        2.0,
    ),
}
# How a child ends that has called, whose parent has not.
CALLED = {
    "sys.exit": ("leave(3, call)", 3),
    "an exception": ("leave(3, call, fail)", 1),
    "os._exit": ("[call(), os._exit(4)]", 4),
    "SIGTERM, handled": ("[call(), stop(signal.SIGTERM, lambda *_: sys.exit(5))]", 5),
    "an atexit function that calls": ("leave(3, call, lambda: atexit.register(call))", 3),
    "an atexit function that calls first": ("leave(3, lambda: atexit.register(call))", 3),
    "a preload that goes on": ("leave(3, lambda: lib.preload(wait=False))", 3),
    "a thread that calls after the end": (
        "leave(3, threading.Thread(target=lambda: [threading.main_thread().join(), call()]).start)",
        3,
    ),
    "sys.exit in a thread": ("leave(3, call, lambda: in_thread(lambda: sys.exit(8)))", 3),
    "os._exit in a thread": ("[call(), in_thread(lambda: os._exit(8))]", 8),
    "close at exit": ("leave(3, call, lambda: atexit.register(lib.close))", 3),
    "a finalizer that calls": (
        "leave(3, call, lambda: globals().update(last=Last()))",
        3,
    ),
}  # fmt: skip
BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    x = np.ones(4, np.float32)
    functions = [("f", lambda x: x * 2), ("g", lambda x: x * 3)]
    built = [build(name, function, {"x": x}) for name, function in functions]
    return str(write(tmp_path_factory.mktemp("package"), built))


def children(
    package: str, arrays: str, before: str, works: Any, ends: Any, *, is_new: bool = False
) -> dict[str, Any]:
    """Return what each child answers, and how each ends, in one parent that has done `before`.

    `is_new`: nothing has imported jax in the parent's process before it.
    """
    code = f"""{BEGIN}
{before}
works, ends = json.loads(sys.argv[3])
answers = {{name: child(lambda: eval(work)) for name, (work, _) in works.items()}}
for name, (end, _) in ends.items():
    answers["end: " + name] = child(lambda: None, lambda: eval(end))
print(json.dumps(answers))
os._exit(0)
"""
    # A fork of a process with jax; the other backend begins without it, as its users do.
    begin = forked if arrays == "jax" and not is_new else fresh
    found: dict[str, Any] = begin(code, package, arrays, json.dumps([works, ends]))
    return found


@pytest.fixture(scope="module")
def after_a_call(package: str) -> dict[str, dict[str, Any]]:
    before = "assert call() == 2.0"
    return {arrays: children(package, arrays, before, REFUSED, ENDS) for arrays in ("jax", "numpy")}


@pytest.fixture(scope="module")
def after_opening(package: str) -> dict[str, dict[str, Any]]:
    return {
        arrays: children(package, arrays, "lib.f", SERVED, CALLED) for arrays in ("jax", "numpy")
    }


@BACKENDS
@pytest.mark.parametrize("work", REFUSED)
def test_refused_after_a_call_of_the_parent(after_a_call: Any, arrays: str, work: str) -> None:
    assert after_a_call[arrays][work] == [REFUSED[work][1], 3]


@pytest.mark.cause(22)
@BACKENDS
@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_child_whose_parent_has_called(
    after_a_call: Any, arrays: str, end: str
) -> None:
    assert after_a_call[arrays][f"end: {end}"] == [None, ENDS[end][1]]


@BACKENDS
@pytest.mark.parametrize("work", SERVED)
def test_served_after_the_parent_opened(after_opening: Any, arrays: str, work: str) -> None:
    assert after_opening[arrays][work] == [SERVED[work][1], 3]


@BACKENDS
@pytest.mark.parametrize("end", CALLED)
def test_the_end_of_a_process_that_has_called(after_opening: Any, arrays: str, end: str) -> None:
    assert after_opening[arrays][f"end: {end}"] == [None, CALLED[end][1]]


# Another thread makes the first call, and stops at this moment: an audit event, and its text.
MIDDLES = {
    "the index is opened": ("open", "/index"),
    "the backend is imported": ("import", "aotbuild.runtime.backends."),
    "jaxlib is imported": ("import", "jaxlib._jax"),
    "an executable is read": ("open", "/blobs/"),
}
MIDDLE = """
event, text = json.loads(sys.argv[4])
reached, go_on = threading.Event(), threading.Event()
def stop_first(found, arguments):
    if (threading.current_thread().name, found) == ("first", event) and text in str(arguments[0]):
        reached.set()
        go_on.wait()
sys.addaudithook(stop_first)
threading.Thread(target=lambda: call(library=load()), name="first", daemon=True).start()
assert reached.wait(60)
"""


@pytest.fixture(scope="module")
def amid_a_call(package: str) -> dict[tuple[str, str], dict[str, Any]]:
    works = {name: REFUSED[name] for name in MIDDLE_WORKS}
    return {
        (arrays, name): children(
            package,
            arrays,
            MIDDLE.replace("sys.argv[4]", repr(json.dumps(moment))),
            works,
            {},
            is_new=True,
        )
        for arrays in ("jax", "numpy")
        for name, moment in MIDDLES.items()
    }


MIDDLE_WORKS = ("a call", "in a thread", "a new library", "a preload", "its own child", "a pool")


@BACKENDS
@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize("work", MIDDLE_WORKS)
def test_a_fork_in_the_middle_of_the_first_call(
    amid_a_call: Any, arrays: str, middle: str, work: str
) -> None:
    assert amid_a_call[arrays, middle][work] == [REFUSED[work][1], 3]


# A server as gunicorn with --preload: its workers poll, and end by SIGTERM or without their master.
SERVER = """
def worker(master, ready):
    signal.alarm(60)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    stopped = []
    answer = tried()
    os.write(ready, (answer[:1] + str(os.getpid()) + ",").encode())
    while not stopped and os.getppid() == master:
        signal.sigtimedwait([signal.SIGUSR2], 0.01)
    sys.exit(0)
def serve(workers, ready):
    master, pids = os.getpid(), []
    for _ in range(workers):
        pids.append(os.fork())
        if not pids[-1]:
            worker(master, ready)
    return pids
call()
reading, writing = os.pipe()
"""
STOPPED = """
pids = serve(3, writing)
told = b""
while told.count(b",") < 3:
    told += os.read(reading, 100)
[os.kill(pid, signal.SIGTERM) for pid in pids]
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
print(json.dumps([told.count(b"r"), codes]))
os._exit(0)
"""
KILLED = """
import ctypes
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: who waits for their workers
master = os.fork()
if not master:
    serve(3, writing)
    signal.pause()
told = b""
while told.count(b",") < 3:
    told += os.read(reading, 100)
os.kill(master, signal.SIGKILL)
codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(4)]
print(json.dumps([told.count(b"r"), sorted(codes)]))
os._exit(0)
"""


@pytest.mark.cause(22)
@BACKENDS
@pytest.mark.parametrize(
    ("end", "codes"),
    [(STOPPED, [0, 0, 0]), (KILLED, [-9, 0, 0, 0])],
    ids=["SIGTERM for the workers", "SIGKILL for the master"],
)
def test_workers_of_a_preloading_server_end(
    package: str, arrays: str, end: str, codes: list[int]
) -> None:
    begin = forked if arrays == "jax" else fresh
    assert begin(BEGIN + SERVER + end, package, arrays) == [3, codes]


@pytest.mark.parametrize("after", ["", "call()"], ids=["first", "after a call"])
def test_a_subinterpreter(package: str, after: str) -> None:
    """numpy refuses it, or it is served; the process goes on."""
    code = f"""{BEGIN}
{after}
try:
    import _interpreters as subs
except ImportError:
    import _xxsubinterpreters as subs
def run():
    try:
        given = "import sys; sys.argv = ['', " + repr(sys.argv[1]) + "]" + chr(10)
        subs.run_string(subs.create(), given + OTHER)
        return "served"
    except Exception as err:
        return "refused"
found = run()
print(json.dumps([found in ("served", "refused"), call()]))
"""
    assert fresh(code, package, "numpy") == [True, 2.0]
