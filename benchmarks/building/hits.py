"""The store beside the compilation that it saves: a hit, and a miss, of a deep transformer.

Three worker processes take turns at the same job: without a store, with an empty one, and with one
that has the executable. The first says how long compiling takes; the others, how long they spend
in the store: looking for an entry, checking it, and writing a new one to the disk.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

from aotbuild.build.jobs import make_jobs
from aotbuild.build.launch import started_with
from benchmarks.building.projects import opened, write_blocks, write_transformer
from benchmarks.places import ROOT

_KINDS = ("off", "empty", "full")
_SERVE = "from benchmarks.building.hits import serve; serve()"


def measure(quick: bool) -> dict[str, Any]:
    """Run the job in all three ways, several times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write = (lambda root: write_blocks(root, 1)) if quick else write_transformer
        with _workers(write(folder / "project"), folder) as ask:
            for kind in _KINDS:  # what the first job of a process starts is no part of this
                ask(kind)
            rounds = [{kind: ask(kind) for kind in _KINDS} for _ in range(2 if quick else 9)]
    compiling = [each["off"]["compile_s"] for each in rounds]
    hits = [each["full"]["store_s"] for each in rounds]
    misses = [each["empty"]["store_s"] for each in rounds]
    return {
        "compile_s": median(compiling),
        "hit_ms": median(hits) * 1000,
        "miss_ms": median(misses) * 1000,
        "hit": median(one / other for one, other in zip(hits, compiling, strict=True)),
        "miss": median(one / other for one, other in zip(misses, compiling, strict=True)),
        "job_off_s": median(each["off"]["job_s"] for each in rounds),
        "job_empty_s": median(each["empty"]["job_s"] for each in rounds),
        "job_full_s": median(each["full"]["job_s"] for each in rounds),
    }


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    return (
        f"compiling takes {row['compile_s']:.2f} s; a hit {row['hit_ms']:.1f} ms "
        f"({row['hit']:.2%}), a miss adds {row['miss_ms']:.1f} ms ({row['miss']:.2%})\n"
        f"the whole job, with its trace: {row['job_off_s']:.2f} s without a store, "
        f"{row['job_empty_s']:.2f} s with an empty one, {row['job_full_s']:.2f} s with a full one"
    )


@contextmanager
def _workers(root: Path, folder: Path) -> Iterator[Callable[[str], dict[str, float]]]:
    """Start a process for each kind, and yield what asks one of them to run the only job."""
    project = opened(root)
    ((settings, job, _),) = make_jobs(project.plan.units)
    given = {
        "root": str(project.sources.import_root),
        "blobs": str(folder / "blobs"),
        "config": settings.config,
        "job": job.model_dump(mode="json"),
    }
    processes = {}
    for kind in _KINDS:
        text = json.dumps({**given, "store": None if kind == "off" else str(folder / kind)})
        with started_with(settings) as (environment, files):
            processes[kind] = subprocess.Popen(
                [sys.executable, "-c", _SERVE, text],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**environment, "PYTHONPATH": str(ROOT)},
                pass_fds=files,
            )

    def ask(kind: str) -> dict[str, float]:
        if kind == "empty":
            shutil.rmtree(folder / kind, ignore_errors=True)
        process = processes[kind]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        answer: dict[str, float] = json.loads(process.stdout.readline())
        return answer

    try:
        yield ask
    finally:
        for process in processes.values():
            process.communicate()


def serve() -> None:
    """Run the job once for each line of stdin, and print how long its parts took."""
    from aotbuild.build.jobs import Job
    from aotbuild.build.replies import Compiled
    from aotbuild.build.requests import Hello
    from aotbuild.store.local import Store
    from aotbuild.worker.compile import NativeCompiler
    from aotbuild.worker.session import Session, prepare

    given = json.loads(sys.argv[1])
    sys.path.insert(0, given["root"])
    Path(given["blobs"]).mkdir(exist_ok=True)
    hello = Hello(
        blobs=given["blobs"],
        store=given["store"],
        root=given["root"],
        config=given["config"],
        secret_paths=(),
        provenance={"aotbuild": "benchmark", "manifest": ""},
    )
    prepare(hello)
    session = Session(hello, lambda _: False)
    job = Job.model_validate(given["job"])
    store, compiling = _Clock(), _Clock()
    with (
        patch.object(Store, "get", store.around(Store.get)),
        patch.object(Store, "put", store.around(Store.put)),
        patch.object(
            NativeCompiler,
            "_compile_best",
            compiling.around(vars(NativeCompiler)["_compile_best"]),
        ),
    ):
        for _ in sys.stdin:
            store.seconds = compiling.seconds = 0.0
            start = perf_counter()
            replies = list(session.run(job))
            taken = perf_counter() - start
            assert any(isinstance(reply, Compiled) for reply in replies), replies
            row = {"job_s": taken, "store_s": store.seconds, "compile_s": compiling.seconds}
            print(json.dumps(row), flush=True)


class _Clock:
    """Adds up how long calls take."""

    seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and is timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += perf_counter() - start

        return timed
