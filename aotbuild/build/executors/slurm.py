"""`slurm://?partition=NAME&time=MINUTES`: jobs of a Slurm cluster, submitted by submitit.

Each attempt is a Slurm job; those that wait at the same time become one array. A folder that all
nodes see carries them there and back.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aotbuild.build.executors.bundle import Bundle, remove_old
from aotbuild.build.executors.machines import Given, Machines, Unusable
from aotbuild.build.executors.submitted import Listed, Passing, SubmittedJobs
from aotbuild.build.executors.urls import shown_url
from aotbuild.errors import PlanError
from aotbuild.format.target import is_count
from aotbuild.toolchains.uv import cache_folder

# Minutes that a job may take, unless the URL says `time`.
_TIME = "60"
# Options that this module knows; values of others, as export, are not printed.
_OWN = ("partition", "time", "folder")
# Jobs of an array, where Slurm does not say.
_ARRAY = 1000
# For one command, in seconds. Slurm's own limit for an answer is 10 s by default.
_ANSWER = 60.0
# States in which a job has left the queue; it is listed for some minutes more. A job in another
# state, also PREEMPTED or NODE_FAIL in a cluster that puts such jobs back, comes again.
_ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
# What sbatch says of a controller that is busy or restarts; other errors are for ever.
_BUSY = re.compile(
    r"timed out|unable to contact|unable to connect|connection (refused|reset)|temporarily|"
    r"communication|zero bytes|try again",
    re.IGNORECASE,
)
_LOG = logging.getLogger("aotbuild")


class SlurmMachines(Machines):
    """Jobs of a Slurm cluster, and the folder that all of its nodes see."""

    def __init__(self, executor: SubmittedJobs, folder: Path, name: str) -> None:
        super().__init__(executor, name)
        self._folder = folder

    def give(self, bundle: Bundle) -> Given:
        """Put the bundle into the folder once; all jobs read it there."""
        path = self._folder / f"{bundle.digest}.zip"
        path.write_bytes(bundle.data)
        return Given(file=path)

    def close(self) -> None:
        """Cancel what has not ended, and remove the folder."""
        self.executor.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)


def submitting(text: str) -> SlurmMachines:
    """Return the machines of the cluster that this machine submits to; PlanError if it cannot."""
    try:
        import submitit
    except ImportError as err:
        msg = f"{shown_url(text, _OWN)}: {err}; install aotbuild[slurm]"
        raise PlanError(msg) from err
    parts = urlsplit(text)
    options = {"time": _TIME, **dict(parse_qsl(parts.query))}
    if parts.netloc or parts.path or not is_count(options["time"]):
        found = shown_url(text, _OWN)
        msg = f"executor: expected slurm://?partition=NAME&time=MINUTES, found {found!r}"
        raise PlanError(msg)
    place = _place(options.pop("folder", ""))
    place.mkdir(parents=True, exist_ok=True)
    remove_old(place)  # what killed builds left
    folder = Path(tempfile.mkdtemp(prefix="build-", dir=place))
    try:
        executor = submitit.SlurmExecutor(folder)
        executor.update_parameters(**_parameters(options, executor))
    except Exception as err:  # submitit raises several types for what it cannot take
        shutil.rmtree(folder, ignore_errors=True)
        msg = f"{shown_url(text, _OWN)}: {err}"
        raise PlanError(msg) from err
    return SlurmMachines(SubmittedJobs(SlurmQueue(executor)), folder, "slurm")


def _place(given: str) -> Path:
    """Return a folder with nothing but builds, as old ones are removed: never the given one."""
    return Path(given).absolute() / "aotbuild-slurm" if given else cache_folder() / "slurm"


def _parameters(options: dict[str, str], executor: Any) -> dict[str, Any]:
    """Return submitit's parameters; what it does not know goes to sbatch as it is."""
    known = executor._valid_parameters()
    values = {k: int(v) if v.isdecimal() else v for k, v in options.items()}
    own: dict[str, Any] = {name: value for name, value in values.items() if name in known}
    others = {name: value for name, value in values.items() if name not in known}
    if "export" in others:  # else srun would drop what submitit's script sets
        own["srun_args"] = ["--export=ALL"]
    return {"job_name": "aotbuild", **own, "additional_parameters": others}


class SlurmQueue:
    """Slurm's commands; jobs that are submitted together are one array."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    @cached_property
    def most(self) -> int:
        """How many jobs an array may have."""
        try:
            config = _output("scontrol", "show", "config")
        except Unusable:
            return _ARRAY
        found = re.search(r"^MaxArraySize\s*=\s*(\d+)", config, re.MULTILINE)
        return max(1, int(found[1])) if found else _ARRAY

    def submit(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Submit calls. A job of which sbatch did not hear back finds no call, and ends."""
        try:
            if len(calls) == 1:
                return [self._submit(calls[0])]
            with self._executor.batch():
                jobs = [self._submit(call) for call in calls]
        except Exception as err:  # submitit raises several types
            text = str(err).strip()
            text = text if text.startswith("sbatch") else f"sbatch: {text}"
            raise (Passing if _BUSY.search(text) else Unusable)(text) from err
        return jobs

    def listed(self, _: Iterable[Any]) -> dict[str, Listed]:
        """Return the jobs of this user, also those that have just ended."""
        # Not sacct, which a cluster without an accounting database lacks. --array: a line for each
        # job of an array.
        options = ("--noheader", "--array", "--me", "--states=all", "--format=%i|%T|%r")
        rows = [line.split("|", 2) for line in _output("squeue", *options).splitlines()]
        return {
            job: Listed(state, state in _ENDED, reason.strip())
            for job, state, reason in (row for row in rows if len(row) == 3)
        }

    def cancel(self, jobs: Iterable[Any]) -> None:
        """Cancel jobs; a warning names them if that fails."""
        ids = [job.job_id for job in jobs]
        try:
            _output("scancel", *ids)
        except (Passing, Unusable) as err:
            _LOG.warning("%s; cancel the jobs yourself: scancel %s", err, " ".join(ids))

    def _submit(self, call: tuple[Any, ...]) -> Any:
        function, args, kwargs = call
        return self._executor.submit(function, *args, **kwargs)


def _output(*command: str) -> str:
    """Return what a command of Slurm prints; Passing if it fails, Unusable if it is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_ANSWER)
    except subprocess.CalledProcessError as err:
        msg = f"{command[0]} ended with exit code {err.returncode}: {err.stderr.strip()}"
        raise Passing(msg) from err
    except subprocess.TimeoutExpired as err:
        msg = f"{command[0]} did not end within {_ANSWER:g} s"
        raise Passing(msg) from err
    except OSError as err:
        msg = f"{command[0]} cannot be started: {err.strerror or err}"
        raise Unusable(msg) from err
    return done.stdout
