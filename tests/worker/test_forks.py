"""A process that serves requests from forks: one gives back, the next is new, and all end alike."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from support.processes import ROOT, clean_environment

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

# What each request does; STATE is what a fork keeps.
SERVER = """
import os, signal, sys, time
import numpy as np
from aotbuild.worker.forks import serve_in_forks
STATE = []
def prepare(): STATE[:] = ["prepared"]
def serve(line):
    while line:
        name = line.strip()
        STATE.append(name)
        print(*STATE, np.random.randint(10**9), flush=True)
        if name == "back": return True
        if name == "exits": sys.exit(7)
        if name == "leaves": os._exit(8)
        if name == "starts":
            if not os.fork(): time.sleep(60)
            os._exit(9)
        if name.startswith("SIG"): os.kill(os.getpid(), getattr(signal, name))
        line = sys.stdin.readline()
    return False
def leave():
    sys.stdout.flush()
    os._exit(0)
serve_in_forks(sys.stdin, prepare, serve, leave)
"""


def served(*requests: str) -> tuple[list[list[str]], int]:
    """Return what was printed, in words, and how the process ended."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean_environment(PYTHONPATH=str(ROOT)),
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
        return shown, process.wait(timeout=30)


def test_the_next_fork_begins_anew() -> None:
    shown, code = served("one", "two", "back", "three")
    assert [words[:-1] for words in shown] == [
        ["prepared", "one"],
        ["prepared", "one", "two"],
        ["prepared", "one", "two", "back"],
        ["prepared", "three"],
    ]
    assert code == 0


def test_each_fork_draws_other_numbers() -> None:
    shown, _ = served("back", "back", "back")
    assert len({words[-1] for words in shown}) == 3


@pytest.mark.parametrize(
    ("request_", "code"),
    [
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
