"""What all jobs of a build read, and where the store has what they made. Imports little."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aotbuild.build.direct.entries import Names

if TYPE_CHECKING:
    from aotbuild.build.settings import Settings
    from aotbuild.store.read_set import World

VARIABLE = "AOTBUILD_DIRECT"


@dataclass(frozen=True)
class JobReads:
    """What one job read, and the state that it found. `settings` are those of its worker."""

    settings: Settings
    names: Names
    state: str


@dataclass
class Reads:
    """The sum of a build's jobs. Safe to use from several threads.

    `blobs` are the store's keys of all blobs by their SHA-256. `used` are the keys of all entries
    that the build used or made. `complete` is false once the inputs of a job are not known. `seen`
    has the names that each job read, and where they are, also of jobs that are traced every time.
    """

    jobs: list[JobReads] = field(default_factory=list)
    blobs: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    complete: bool = True
    seen: list[tuple[World, Names]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, job: JobReads, blobs: Mapping[str, str]) -> None:
        """Add what one job read, and the blobs that it made."""
        with self._lock:
            self.jobs.append(job)
            self.blobs.update(blobs)

    def saw(self, world: World, names: Names) -> None:
        """Add the names of what one job read."""
        with self._lock:
            self.seen.append((world, names))
