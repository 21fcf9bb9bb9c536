"""Jobs of child processes, their messages, and the outcomes that follow from them."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.format.record import Record
from aotbuild.format.record_json import record_digest
from aotbuild.format.target import HOST
from aotbuild.verify.outcome import GOLDEN, LOAD, NOT_LOADED, Outcome, Status

Message = dict[str, Any]
_STATUSES = {status.value for status in Status}
_DOING = {LOAD: "loaded", GOLDEN: "called"}


@dataclass(frozen=True)
class ChildExit:
    """The exit of a child during a job: its exit code, None if it timed out."""

    code: int | None
    timeout: float
    log: str

    def __str__(self) -> str:
        if self.code is None:
            return f"took longer than {self.timeout:g} s and was stopped"
        if self.code < 0:
            return f"died of {_signal_name(-self.code)}"
        return f"ended with exit code {self.code} and no result"

    @property
    def status(self) -> Status:
        """The status of the check that was running."""
        return Status.TIMED_OUT if self.code is None else Status.CRASHED


def read_messages(data: bytes) -> list[list[Message]]:
    """Return the messages of each job, in order; other lines are ignored."""
    jobs: list[list[Message]] = []
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict) and message.get("job") == len(jobs):
                jobs.append([])
            elif jobs and _is_message(message):
                jobs[-1].append(message)
    return jobs


def outcomes_of(record: Record, messages: Sequence[Message]) -> tuple[Outcome, ...] | None:
    """Return the outcomes of both checks of a job, or None if it has not ended."""
    found = {m["check"]: _outcome(record, m) for m in messages if "check" in m}
    return (found[LOAD], found[GOLDEN]) if len(found) == len(_DOING) else None


def outcomes_after_exit(
    record: Record, messages: Sequence[Message], exited: ChildExit
) -> tuple[Outcome, ...]:
    """Return the outcomes of a job during which the child exited or was stopped."""
    found = {m["check"]: _outcome(record, m) for m in messages if "check" in m}
    begun = {m["stage"] for m in messages if "stage" in m}
    check = GOLDEN if LOAD in found else LOAD
    when = f" before it {_DOING[check]} the executable" if check not in begun else ""
    status = exited.status if check in begun else Status.NOT_CHECKED
    reason = f"the child process {exited}{when}\n{exited.log}".strip()
    found[check] = Outcome(check, str(record), status, (reason,))
    not_called = Outcome(GOLDEN, str(record), Status.NOT_CHECKED, (NOT_LOADED,))
    return found[LOAD], found.get(GOLDEN, not_called)


def _outcome(record: Record, message: Message) -> Outcome:
    status, reasons = Status(message["status"]), tuple(message["reasons"])
    return Outcome(message["check"], str(record), status, reasons)


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    if "stage" in message:
        return message["stage"] in (LOAD, GOLDEN)
    status, reasons = message.get("status"), message.get("reasons")
    return (
        message.get("check") in (LOAD, GOLDEN)
        and isinstance(status, str)
        and status in _STATUSES
        and isinstance(reasons, list)
        and all(isinstance(reason, str) for reason in reasons)
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# Jobs of one child, at most: loaded executables stay in memory.
_LONGEST = 16


@dataclass(frozen=True)
class Job:
    """A record to load, and where it is: an `_aot` folder or a wheel."""

    place: str
    record: Record

    def to_json(self) -> dict[str, str]:
        """Return the job as the child reads it."""
        digest = record_digest(self.record)
        return {"place": self.place, "function": self.record.function, "record": digest}

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of the child.

        Settings that a process chooses (x64, the number of CPU devices) follow the record; facts
        of the machine stay.
        """
        variables = dict(outer)
        variables.pop("AOTBUILD_GUARD", None)  # it compiles portable forms on purpose
        variables["JAX_ENABLE_X64"] = "1" if self.record.requires.x64 else "0"
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if not self.needs_accelerator:
            variables["JAX_PLATFORMS"] = HOST
            count = f"--xla_force_host_platform_device_count={self.record.requires.devices}"
            variables["XLA_FLAGS"] = f"{outer.get('XLA_FLAGS', '')} {count}".strip()
        return variables

    @property
    def process(self) -> tuple[bool, int, bool]:
        """What jobs have in common that one process can do."""
        requires = self.record.requires
        # Only of a CPU can a variable set the number of devices.
        devices = 0 if self.needs_accelerator else requires.devices
        return requires.x64, devices, self.needs_accelerator

    @property
    def needs_accelerator(self) -> bool:
        """Whether only one process at a time may use its platform."""
        return not self.record.target.is_portable and self.record.target.platform != HOST


def batches(jobs: Sequence[Job], workers: int) -> list[list[int]]:
    """Return the job indices of each child, in the order of the jobs."""
    groups: dict[tuple[bool, int, bool], list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault(job.process, []).append(index)
    size = max(1, min(_LONGEST, -(-len(jobs) // workers)))
    cut = (
        group[start : start + size]
        for group in groups.values()
        for start in range(0, len(group), size)
    )
    return sorted(cut)
