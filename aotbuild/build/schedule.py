"""Which job comes next, so that all CPUs have work and few workers have to be started."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from aotbuild.build.jobs import Job
from aotbuild.build.plan import BuildUnit
from aotbuild.build.worker_init import Settings


@dataclass(frozen=True, eq=False)
class Task:
    """A job, the settings of the worker that it needs, and its units."""

    settings: Settings
    job: Job
    units: tuple[BuildUnit, ...]


class Schedule:
    """The tasks that nobody has begun. Safe to use from several threads.

    Who asks keeps to the settings of its last task while there are more of them: others need
    another process. Then come settings that nobody is at, and then those with the most work for
    each who is at them. Among tasks of equal settings the longest comes first, as far as the same
    signature for another target told how long it takes.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._waiting: dict[Settings, list[Task]] = {}
        for task in tasks:
            self._waiting.setdefault(task.settings, []).append(task)
        self._at_work: Counter[Settings] = Counter()
        self._seconds: dict[str, float] = {}
        self._usual = 1.0
        self._lock = threading.Lock()

    def take(self, last: Settings | None) -> Task:
        """Return the next task for one whose last task had these settings."""
        with self._lock:
            open_ones = [settings for settings, tasks in self._waiting.items() if tasks]
            settings = last if last in open_ones else max(open_ones, key=self._urgency)
            task = max(self._waiting[settings], key=self._expected)
            self._waiting[settings].remove(task)
            self._at_work[settings] += 1
            return task

    def finish(self, task: Task, seconds: float) -> None:
        """Hear that a task is done, and how long it took."""
        with self._lock:
            self._at_work[task.settings] -= 1
            self._seconds[task.job.label] = seconds
            self._usual = sum(self._seconds.values()) / len(self._seconds)

    def _urgency(self, settings: Settings) -> tuple[bool, float]:
        work = sum(map(self._expected, self._waiting[settings]))
        return not self._at_work[settings], work / (self._at_work[settings] + 1)

    def _expected(self, task: Task) -> float:
        return self._seconds.get(task.job.label, self._usual)
