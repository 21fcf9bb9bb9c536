"""A process that serves each request in a fork: each begins anew, and all end alike."""

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

# What each request does; STATE is what a fork keeps.
SERVER = """
import os, random, signal, subprocess, sys, time
import numpy as np
from aotbuild.worker.forks import serve_in_forks
STATE = []
def prepare(): STATE.append("prepared")
def serve(line):
    name = line.strip()
    STATE.append(name)
    print(*STATE, np.random.randint(10**9), random.random(), flush=True)
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
serve_in_forks(sys.stdin, prepare, serve)
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
        return shown, process.wait(timeout=30)


def test_each_request_begins_anew() -> None:
    shown, code = served("one", "two", "three")
    assert [words[:-2] for words in shown] == [
        ["prepared", each] for each in ("one", "two", "three")
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


ENDS = {"exits": 7, "leaves": 8, "starts": 9}
SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)


@pytest.mark.parametrize(("request_", "code"), (ENDS | {s.name: -s for s in SIGNALS}).items())
def test_the_process_ends_as_its_fork_does(request_: str, code: int) -> None:
    shown, ended = served("one", request_)
    assert len(shown) == 2
    assert ended == code
