"""What each system asks of the kernel until it ends: page faults and system calls.

Counts do not depend on how busy the machine is. System calls are counted by strace, where it is
installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.process import clean_environment
from benchmarks.ready import Ready
from benchmarks.registry import System
from benchmarks.venvs import Unavailable

_SHOWN = ("read", "mmap", "mprotect", "futex")


def measure_processes(ready: Ready, systems: list[System], rounds: int) -> dict[str, Any]:
    """Return `{"rows": […]}`: what a process of each system did, for the transformer."""
    print("processes: what they ask of the kernel", flush=True)
    model = "transformer"
    rows = []
    for system in ready.systems(model, systems, {}):
        command = system.run_command(ready.python(system.environment), model)
        try:
            rows.append({"system": system.title, **_faults(command, rounds), **_calls(command)})
        except Unavailable as err:
            print(f"  {system.name}: not available: {err}", flush=True)
    return {"rows": rows}


def _faults(command: list[str], rounds: int) -> dict[str, int]:
    """Return the median of the page faults that read nothing from a disk."""
    return {"page_faults": round(median(_faults_once(command) for _ in range(rounds)))}


def _faults_once(command: list[str]) -> int:
    child = _start(command)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        msg = f"{Path(command[1]).name} ended with {child.returncode}"
        raise Unavailable(msg)
    return usage.ru_minflt


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, env=clean_environment())


def _calls(command: list[str]) -> dict[str, int]:
    """Return how many system calls of some kinds all threads made; nothing without strace."""
    strace = shutil.which("strace")
    if strace is None:
        return {}
    with tempfile.NamedTemporaryFile("r") as counts:
        traced = [strace, "-f", "-c", "-o", counts.name, *command]
        if _start(traced).wait(timeout=600):
            return {}
        found = parse_counts(counts.read())
    return {"system_calls": found["total"], **{name: found.get(name, 0) for name in _SHOWN}}


def parse_counts(printed: str) -> dict[str, int]:
    """Return the calls of each name in the table of `strace -c`; `total` is all of them."""
    # % time, seconds, usecs/call, calls, errors (may be empty), name
    row = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)
    return {name: int(calls) for calls, name in row.findall(printed)}
