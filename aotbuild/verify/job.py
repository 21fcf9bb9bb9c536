"""Jobs of child processes: a record to load and to call, and the process that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aotbuild.spec.record import Record
from aotbuild.spec.record_json import record_digest

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
