"""Child processes that end with this one, however it ends: also killed, with no time to clean up.

Linux can send a signal when the last writer of a pipe is gone (O_ASYNC). A child holds the reading
end of such a pipe, this process the writing end. The kernel then kills the child, or its process
group with all that it started, even if the child is deep in native code. PR_SET_PDEATHSIG would do
it when the thread ends that started the child, and for that child only.

Other systems have no such signal. There a child ends when it next reads or writes its pipes.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any


class Lifeline:
    """One child's pipe: start the child with `pass_fds=line.files`, then tie it."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self._reading, self._writing = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")

    @property
    def files(self) -> tuple[int, ...]:
        """The file that the child has to inherit."""
        return (self._reading.fileno(),)

    def tie(self, process: subprocess.Popen[Any], *, group: bool = False) -> None:
        """Have the child, or its whole process group, killed when this process ends."""
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
        self._reading.close()
        self._writing.close()
