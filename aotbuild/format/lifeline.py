"""Child processes that end with this one, however it ends, and whatever they start ends with them.

If this process is killed, it has no time to clean up. Linux can send a signal when the last writer
of a pipe is gone (O_ASYNC). A child holds the reading end of such a pipe, this process the writing
end. The kernel then kills the child, or its process group with all that it started, even if the
child is deep in native code. PR_SET_PDEATHSIG would do it when the thread ends that started the
child, and for that child only.

Code in a child may start processes in groups and sessions of their own, as servers do. A variable
of the environment marks them. When a child has ended, all processes with its mark are killed.

Other systems have neither. There a child ends when it next reads or writes its pipes.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_MARK = "AOTBUILD_LIFELINE"
_PROCESSES = Path("/proc")
# Processes that start others while they are killed are looked for again, so many times.
_ROUNDS = 100


class Lifeline:
    """One child's pipe: start the child with its `files` and `variables`, then tie it."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self._reading, self._writing = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
        self._mark = os.urandom(16).hex()
        self._group: int | None = None

    @property
    def files(self) -> tuple[int, ...]:
        """The file that the child has to inherit."""
        return (self._reading.fileno(),)

    @property
    def variables(self) -> dict[str, str]:
        """The variable that the child has to have in its environment."""
        return {_MARK: self._mark}

    def tie(self, process: subprocess.Popen[Any], *, group: bool = False) -> None:
        """Have the child, or its whole process group, killed when this process ends."""
        self._group = process.pid if group else None
        if sys.platform == "linux":
            owner = -process.pid if group else process.pid
            flags = fcntl.fcntl(self._reading, fcntl.F_GETFL) | os.O_ASYNC
            with suppress(OSError):  # a sandbox may lack these calls
                fcntl.fcntl(self._reading, fcntl.F_SETOWN, owner)
                fcntl.fcntl(self._reading, fcntl.F_SETSIG, signal.SIGKILL)
                fcntl.fcntl(self._reading, fcntl.F_SETFL, flags)
        self._reading.close()

    def close(self) -> None:
        """Kill the child if it still runs, and what it started."""
        if self._writing.closed:
            return
        self._reading.close()
        self._writing.close()
        if self._group is not None:
            # Nobody may be left in it, or only processes of another user.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
        _kill_marked(f"{_MARK}={self._mark}".encode())


def run_tied(
    command: Sequence[str],
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a command as `subprocess.run` does; nothing of it runs on when this returns.

    subprocess.TimeoutExpired if it takes longer than `timeout` seconds.
    """
    line = Lifeline()
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**(os.environ if env is None else env), **line.variables},
            pass_fds=line.files,
            start_new_session=True,
            **options,
        ) as process:
            line.tie(process, group=True)
            try:
                out, err = process.communicate(timeout=timeout)
            finally:
                line.close()
    finally:
        line.close()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _kill_marked(variable: bytes) -> None:
    """Kill all processes that began with a variable; those of other users cannot be looked at."""
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        found = _marked(variable) - killed
        if not found:
            return
        for number in found:
            with suppress(OSError):  # it has ended
                os.kill(number, signal.SIGKILL)
        killed |= found


def _marked(variable: bytes) -> set[int]:
    found = set()
    with suppress(OSError):
        for folder in [each for each in _PROCESSES.iterdir() if each.name.isdigit()]:
            with suppress(OSError):  # it has ended, or is not ours
                if variable in (folder / "environ").read_bytes():
                    found.add(int(folder.name))
    return found
