"""One measured process: from fork to exit, seen from outside and by its own marks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from time import perf_counter

from benchmarks.venvs import Unavailable

# What would change a measurement if the caller's shell had it set.
_FOREIGN = (
    *("AOTBUILD_", "JAX_", "PYTHON", "XLA_", "OMP_", "TF_", "VIRTUAL_ENV", "LD_"),
    *("DNNL_", "GLIBC_", "MALLOC_", "ONEDNN_", "OPENBLAS_"),
)


@dataclass(frozen=True)
class Sample:
    """What one process took: seconds, and MB of memory at most.

    `stages` are its own marks: how long each took, the first from fork to the start of Python's
    main module. `calls` are the seconds of further calls.
    """

    wall_s: float
    cpu_s: float
    rss_mb: float
    stages: dict[str, float]
    calls: tuple[float, ...]

    @property
    def first_result_s(self) -> float:
        """Seconds from fork to the first result."""
        return sum(self.stages.values())


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what changes measurements."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    return {**kept, "JAX_PLATFORMS": "cpu"}


def run(command: list[str], limit_s: float = 600) -> Sample:
    """Run a command of `systems/` and measure it; raises Unavailable if it fails."""
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryDirectory() as away:
        start = perf_counter()
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=clean_environment(), cwd=away
        )
        assert child.stdout is not None
        timer = Timer(limit_s, child.kill)
        timer.start()
        printed = child.stdout.read()
        # Not child.wait(): only wait4 tells what this one child used.
        _, status, usage = os.wait4(child.pid, 0)
        wall = perf_counter() - start
        timer.cancel()
        child.stdout.close()
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            errors.seek(0)
            raise Unavailable(_reason(command, child.returncode, errors.read().decode()))
    report = json.loads(printed.splitlines()[-1])
    return Sample(
        wall_s=wall,
        cpu_s=usage.ru_utime + usage.ru_stime,
        rss_mb=(report["peak_kb"] or usage.ru_maxrss) / 1024,
        stages=stages(report["marks"], start),
        calls=tuple(report["calls"]),
    )


def stages(marks: list[tuple[str, float]], start: float) -> dict[str, float]:
    """Return how long each stage took, from marks of when each ended."""
    ends = [start, *(when for _, when in marks)]
    return {stage: when - ends[index] for index, (stage, when) in enumerate(marks)}


def run_plain(command: list[str], limit_s: float = 600) -> str:
    """Run a command and return what it printed; raises Unavailable if it fails."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=clean_environment(),
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired as err:
        msg = f"{Path(command[1]).name}: not done after {limit_s:.0f} s"
        raise Unavailable(msg) from err
    if done.returncode:
        raise Unavailable(_reason(command, done.returncode, done.stderr or done.stdout))
    return done.stdout


def _reason(command: list[str], code: int, errors: str) -> str:
    said = [line for line in errors.strip().splitlines() if line.strip()] or ["no message"]
    ended = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return f"{Path(command[1]).name} ended with {ended}: {said[-1].strip()[:300]}"
