"""A worker serves each request in a fork of what has imported its modules, and ends as it does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import ROOT, clean_environment

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

# What each request does; STATE is what a fork keeps. A request is `modules:name`.
SERVER = """
import atexit, os, random, signal, subprocess, sys, tempfile, threading, time
import numpy as np
from aotbuild.worker.shared_imports import serve_in_forks
STATE = []
LEFT = {
    "thread": lambda: threading.Thread(target=time.sleep, args=(60,), daemon=True).start(),
    "file": lambda: STATE.append(open(os.devnull)),
    "child": lambda: subprocess.Popen(["sleep", "60"]),
    "folder": lambda: STATE.append(tempfile.TemporaryDirectory()),
    "exit": lambda: atexit.register(lambda: print("exit", flush=True)),
    "signal": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    "dies": lambda: os._exit(6),
    "nothing": lambda: None,
}
class Work:
    def prepare(self): STATE.append("prepared")
    def modules(self, line): return tuple(line.split(":")[:-1])
    def load(self, modules, *, is_second):
        print(f"second {is_second}" if is_second else "imports", *modules, end=" ", flush=True)
        for name in modules: LEFT[name]()
    def serve(self, line, second):
        name = line.strip().split(":")[-1]
        STATE.append(name)
        found = [each for each in STATE if isinstance(each, str)]
        print(*found, np.random.randint(10**9), random.random(), flush=True)
        if name == "exits": sys.exit(7)
        if name == "leaves": os._exit(8)
        if name == "starts":
            if not os.fork(): time.sleep(60)
            os._exit(9)
        if name == "leaves_some":
            program = "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
            for _ in range(2):
                subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
            time.sleep(0.5)
        if name.startswith("SIG"): os.kill(os.getpid(), getattr(signal, name))
    def serve_second(self, first): pass
serve_in_forks(sys.stdin, Work())
"""


def served(*requests: str, mark: str = "MARK_OF_A_TEST=") -> tuple[list[list[str]], int]:
    """Return what was printed, in words, and how the process ended."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean_environment(PYTHONPATH=str(ROOT), MARK_OF_A_TEST=mark.partition("=")[2]),
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        shown = []
        for request in requests:
            # One at a time, as a build does: each waits for its answer.
            process.stdin.write(f"{request}\n")
            process.stdin.flush()
            shown.append(process.stdout.readline().split())
        process.stdin.close()
        shown += [line.split() for line in process.stdout]
        return shown, process.wait(timeout=30)


def test_requests_of_equal_modules_share_their_imports_and_nothing_else() -> None:
    shown, code = served("exit:one", "exit:two", "nothing:three", "exit:four")
    assert [[word for word in words if word.isalpha()] for words in shown] == [
        ["imports", "exit", "prepared", "one"],
        ["prepared", "two"],
        ["exit"],  # once, when nobody needs what was imported
        ["imports", "nothing", "prepared", "three"],
        ["imports", "exit", "prepared", "four"],
        ["exit"],
    ]
    assert code == 0


@pytest.mark.parametrize("left", ["thread", "file", "child", "folder", "signal"])
def test_an_import_whose_leftovers_forks_lack_or_share_serves_one_request(left: str) -> None:
    shown, code = served(f"{left}:one", f"{left}:two")
    assert [words[:-2] for words in shown] == [
        ["imports", left, "prepared", each] for each in ("one", "two")
    ]
    assert code == 0


def test_processes_that_a_fork_leaves_end_with_it() -> None:
    mark = f"MARK_OF_A_TEST={os.urandom(8).hex()}"
    shown, code = served("leaves_some", "two", mark=mark)
    assert (len(shown), code) == (2, 0)
    left = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            left += [environment] if mark.encode() in environment.read_bytes() else []
    assert left == []


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("dies:one", 6),
        ("exits", 7),
        ("leaves", 8),
        ("starts", 9),
        ("SIGKILL", -signal.SIGKILL),
        ("SIGSEGV", -signal.SIGSEGV),
        ("SIGABRT", -signal.SIGABRT),
    ],
)
def test_the_process_ends_as_its_fork_does(request_: str, code: int) -> None:
    shown, ended = served("one", request_)
    assert len(shown) == 2
    assert ended == code
