"""A build of many units on Dask workers, beside the same build by processes of this machine.

What is compared takes turns. For the overhead, one worker and one local process at a time may use
all CPUs. For the speed-up, each worker is bound to one CPU, as if it were a machine of its own:
otherwise the threads of the first one's compiler would already use the second CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.building.projects import build, variables, write_blocks

# For a scheduler and its workers to start, in seconds.
_PATIENCE = 120


def measure(quick: bool) -> dict[str, Any]:
    """Build in all four ways, in turns."""
    return _measured(4, 1) if quick else _measured(64, 3)


def _measured(units: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        root = write_blocks(folder / "project", units)
        executors: dict[str, str | None] = {
            "local": None,
            "dask": stack.enter_context(cluster(folder / "free", [None])),
            "one": stack.enter_context(cluster(folder / "one", _cpus(1))),
            "two": stack.enter_context(cluster(folder / "two", _cpus(2))),
        }
        warm = write_blocks(folder / "warm", 1)
        for kind, executor in executors.items():
            build(warm, folder / kind / "warm" / "_aot", "off", executor)
        taken: list[dict[str, float]] = []
        for number in range(rounds):
            row = {}
            for kind, executor in executors.items():
                out = folder / kind / str(number) / "_aot"
                built = build(root, out, "off", executor, None if executor else 1)
                assert built.counts == {"compiled": units}, built.counts
                row[kind] = built.seconds
            taken.append(row)
    return {
        "units": units,
        "local_s": median(row["local"] for row in taken),
        "dask_s": median(row["dask"] for row in taken),
        "overhead": median(row["dask"] / row["local"] for row in taken) - 1,
        "one_s": median(row["one"] for row in taken),
        "two_s": median(row["two"] for row in taken),
        "two_to_one": median(row["two"] / row["one"] for row in taken),
        "speedup": median(row["one"] / row["two"] for row in taken),
    }


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    return (
        f"{row['units']} units: {row['local_s']:.1f} s by local processes, {row['dask_s']:.1f} s "
        f"by one Dask worker: {row['overhead']:+.1%}\n"
        f"workers with one CPU each: {row['one_s']:.1f} s by one, {row['two_s']:.1f} s by two: "
        f"{row['speedup']:.2f} times as fast"
    )


def _cpus(count: int) -> list[int | None]:
    usable = sorted(os.sched_getaffinity(0))
    return [usable[number % len(usable)] for number in range(count)]


@contextmanager
def cluster(folder: Path, cpus: list[int | None]) -> Iterator[str]:
    """Start a scheduler, and a worker for each of `cpus`, bound to it; yield its address for us."""
    folder.mkdir()
    file = folder / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
    with ExitStack() as stack, variables(AOTBUILD_STORE="off"):
        stack.enter_context(_process(folder, "scheduler", *options))
        for cpu in cpus:
            options = ["--scheduler-file", str(file), "--nthreads", "1", "--no-nanny"]
            stack.enter_context(_process(folder, "worker", *options, cpu=cpu))
        yield _address(file, len(cpus))


@contextmanager
def _process(folder: Path, kind: str, *options: str, cpu: int | None = None) -> Iterator[None]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard", *options]
    with (folder / f"{kind}.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    if cpu is not None:
        os.sched_setaffinity(process.pid, {cpu})
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _address(file: Path, workers: int) -> str:
    """Return the address of a scheduler as `--executor` takes it, once its workers are there."""
    from distributed import Client  # an extra

    with Client(scheduler_file=str(file), timeout=_PATIENCE, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=_PATIENCE)
    address: str = json.loads(file.read_text())["address"]
    return address.replace("tcp://", "dask://")
