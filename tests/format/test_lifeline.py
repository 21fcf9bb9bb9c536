"""A child ends with the process that started it, even if that is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from aotbuild.format.lifeline import Lifeline

pytestmark = pytest.mark.process

# Starts a child, tied to it, and that a grandchild. All have the test's pipe, which ends with them.
BUILD = """
import subprocess, sys, threading, time
from aotbuild.format.lifeline import Lifeline
child = "import subprocess; subprocess.run(['sleep', '600'])" if {group} else "{busy}"
def start():
    global line
    line = Lifeline()
    process = subprocess.Popen(
        [sys.executable, "-c", child], pass_fds=(*line.files, 1), start_new_session=True
    )
    line.tie(process, group={group})
    print(process.pid, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep({seconds})
"""
# Native code that keeps the GIL.
BUSY = "import ctypes; ctypes.PyDLL(None).sleep(600)"


def start(**values: object) -> subprocess.Popen[str]:
    code = BUILD.format(busy=BUSY, **values)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def ends(process: subprocess.Popen[str]) -> bool:
    """Return whether all that have the pipe end soon."""
    assert process.stdout is not None
    with process.stdout as pipe:
        return bool(select.select([pipe], [], [], 60)[0]) and pipe.read() == ""


@pytest.mark.parametrize("group", [True, False])
def test_a_killed_process_takes_its_children_along(group: bool) -> None:
    """Also those of a thread that has ended, and grandchildren where the group is tied."""
    with start(group=group, seconds=600) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip().isdigit()
        process.send_signal(signal.SIGKILL)
        assert ends(process)


def test_it_lives_as_long_as_the_process() -> None:
    line = Lifeline()
    process = subprocess.Popen(["cat"], pass_fds=line.files, stdin=subprocess.PIPE)
    line.tie(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    line.close()


def test_closing_it_kills_the_child() -> None:
    line = Lifeline()
    process = subprocess.Popen(["sleep", "600"], pass_fds=line.files)
    line.tie(process)
    line.close()
    assert process.wait(60) == -signal.SIGKILL


def test_closing_one_that_is_not_tied_closes_both_ends() -> None:
    line = Lifeline()
    (number,) = line.files
    line.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(number)
