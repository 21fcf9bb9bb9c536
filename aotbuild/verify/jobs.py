"""Jobs of child processes, and what their messages and their end mean."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_digest
from aotbuild.verify.other_hosts import needed
from aotbuild.verify.outcome import GOLDEN, LOAD, NOT_LOADED, Outcome, Status

Message = dict[str, Any]
_STATUSES = {status.value for status in Status}
_DOING = {LOAD: "loaded", GOLDEN: "called"}


@dataclass(frozen=True)
class Death:
    """The end of a child in the middle of a job: its exit code, None if it took too long."""

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
        """What it means for the check that was made."""
        return Status.TIMED_OUT if self.code is None else Status.CRASHED


def read_messages(data: bytes) -> list[list[Message]]:
    """Return the messages about each job, in order; what is not a message is left out."""
    jobs: list[list[Message]] = []
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict) and message.get("job") == len(jobs):
                jobs.append([])
            elif jobs and _is_message(message):
                jobs[-1].append(message)
    return jobs


def read_platforms(data: bytes) -> tuple[str, ...] | None:
    """Return the platforms that a child named, or None if it named none."""
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
            found = message.get("platforms") if isinstance(message, dict) else None
            if isinstance(found, list) and found and all(isinstance(n, str) for n in found):
                return tuple(found)
    return None


def outcomes_of(record: Record, messages: Sequence[Message]) -> tuple[Outcome, ...] | None:
    """Return the outcomes of both checks of a job, or None if it is not at its end."""
    found = {m["check"]: _outcome(record, m) for m in messages if "check" in m}
    return (found[LOAD], found[GOLDEN]) if len(found) == len(_DOING) else None


def outcomes_of_dead(
    record: Record, messages: Sequence[Message], death: Death
) -> tuple[Outcome, ...]:
    """Return the outcomes of a job that the child died in, or was stopped in."""
    found = {m["check"]: _outcome(record, m) for m in messages if "check" in m}
    begun = {m["stage"] for m in messages if "stage" in m}
    check = GOLDEN if LOAD in found else LOAD
    when = f" before it {_DOING[check]} the executable" if check not in begun else ""
    status = death.status if check in begun else Status.NOT_CHECKED
    reason = f"the child process {death}{when}\n{death.log}".strip()
    found[check] = Outcome(check, str(record), status, (reason,))
    not_called = Outcome(GOLDEN, str(record), Status.NOT_CHECKED, (NOT_LOADED,))
    return found[LOAD], found.get(GOLDEN, not_called)


def _outcome(record: Record, message: Message) -> Outcome:
    status, reasons = Status(message["status"]), tuple(message["reasons"])
    is_elsewhere = message["check"] == LOAD and message.get("refused") is True
    needs = needed(record, reasons) if is_elsewhere else None
    return Outcome(message["check"], str(record), status, reasons, needs)


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


# Jobs that one child does: what it loaded stays in memory.
_LONGEST = 16


@dataclass(frozen=True)
class Job:
    """A record to load, and where it is: an `_aot` folder or a wheel."""

    place: str
    record: Record

    def to_json(self) -> dict[str, str]:
        """Return what the child is told."""
        digest = record_digest(self.record)
        return {"place": self.place, "function": self.record.function, "record": digest}

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return the child's variables.

        What a process chooses (x64, the number of CPU devices) is set as the record needs it; what
        a machine has is not.
        """
        variables = dict(outer)
        variables["JAX_ENABLE_X64"] = "1" if self.record.requires.x64 else "0"
        variables["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if not self.needs_accelerator:
            variables["JAX_PLATFORMS"] = "cpu"
            count = f"--xla_force_host_platform_device_count={self.record.requires.devices}"
            variables["XLA_FLAGS"] = f"{outer.get('XLA_FLAGS', '')} {count}".strip()
        return variables

    @property
    def needs_accelerator(self) -> bool:
        """Whether its platform may be used by one process at a time only."""
        return not self.record.target.is_portable and self.record.target.platform != "cpu"


def batches(jobs: Sequence[Job], workers: int) -> list[list[int]]:
    """Return the indices of jobs that one child after the other can do, in the jobs' order."""
    groups: dict[tuple[bool, int, bool], list[int]] = {}
    for index, job in enumerate(jobs):
        requires = job.record.requires
        key = (requires.x64, requires.devices, job.needs_accelerator)
        groups.setdefault(key, []).append(index)
    size = max(1, min(_LONGEST, -(-len(jobs) // workers)))
    cut = (
        group[start : start + size]
        for group in groups.values()
        for start in range(0, len(group), size)
    )
    return sorted(cut)
