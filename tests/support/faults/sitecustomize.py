"""Kills a build at a write: the interpreter imports this first where PYTHONPATH names its folder.

PYTEST_FAULTS is JSON: `root` (only what is below it counts), `log` (a file that gets a line of JSON
for each write), `at` (none, or the write to be killed at: `[role, event, place, number]`, counted
from 0 in one process) and `done`, a file that is made at the kill, which comes once. The
build is killed; at a write of a worker, the worker stops there, and waits for its own end.

The variable has a name that is not in the key of a whole build, so another fault is no reason to
build anew.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

GIVEN = json.loads(os.environ["PYTEST_FAULTS"])
IS_WORKER = any(argument.endswith("worker/start.py") for argument in sys.orig_argv)
ROLE = "worker" if IS_WORKER else "build"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Their first argument is the path that is changed, their last the folder it is relative to.
CHANGES = {"os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.utime"}
# Opened before anything counts what is opened.
LOG = os.open(GIVEN["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
OURS = ("aotbuild", "hatch_aotbuild")
# They write for others, so whoever calls them says which write it is.
HANDS = ("aotbuild.format.layout", "aotbuild.format.temporary", "aotbuild.store.folder")
counts: Counter[tuple[str, str]] = Counter()


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes):
        if int(arguments[2]) & WRITES:
            reached("open", arguments[0])
    elif event in CHANGES:
        reached(event, arguments[0], arguments[-1])
    elif event == "ctypes.dlsym" and arguments[1] == "renameat2":
        reached("exchange", GIVEN["root"])


def fsync(number: int) -> None:
    """Count it as a write of the file, half of which is there if the build is killed at it.

    What is there at the fsync itself, all of the file, is there when it is renamed, too.
    """
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode):
        path = Path(f"/proc/self/fd/{number}").readlink()
        if is_next("write", place_of(path)):
            os.truncate(path, found.st_size // 2)
        reached("write", path)
    real_fsync(number)


def reached(event: str, path: Any, folder: Any = None) -> None:
    """Count a write, and end here if it is the one."""
    place = place_of(path, folder)
    if place is None:
        return
    if is_next(event, place):
        kill()
    number = counts[event, place]
    counts[event, place] += 1
    line = json.dumps([ROLE, event, place, number])
    os.write(LOG, f"{line}\n".encode())


def is_next(event: str, place: str | None) -> bool:
    return bool(GIVEN["at"] == [ROLE, event, place, counts[event, place or ""]])


def place_of(path: Any, folder: Any = None) -> str | None:
    """Return which functions of ours write; None if others do, or it is none of the test."""
    name = Path(os.fsdecode(path))
    if isinstance(folder, int) and folder >= 0:
        name = Path(f"/proc/self/fd/{folder}").readlink() / name
    if not name.absolute().is_relative_to(GIVEN["root"]):
        return None
    frame: FrameType | None = sys._getframe()
    ours: list[str] = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "tempfile" and frame.f_code.co_name == "_get_default_tempdir" and not ours:
            return None  # Python tries where it can write
        if module.partition(".")[0] in OURS:
            ours.append(f"{module}:{frame.f_code.co_name}")
            if module not in HANDS:
                break
        frame = frame.f_back
    return " of ".join(ours) or None


def kill() -> None:
    """End the build, once."""
    try:
        os.close(os.open(GIVEN["done"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if not IS_WORKER:
        os.kill(os.getpid(), signal.SIGKILL)
    # A worker is a child of the build; its forks, and theirs, have its command line.
    process = Path("/proc", str(os.getppid()))
    while b"aotbuild/worker/" in (process / "cmdline").read_bytes():
        process = Path("/proc", (process / "stat").read_text().rpartition(")")[2].split()[1])
    os.kill(int(process.name), signal.SIGKILL)
    while True:
        signal.pause()


real_fsync = os.fsync
os.fsync = fsync
sys.addaudithook(audit)
