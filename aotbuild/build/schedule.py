"""The tasks of a build, and which of them comes next."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from aotbuild.build.jobs import Fed, Job
from aotbuild.build.plan import BuildUnit
from aotbuild.build.settings import Settings


@dataclass(frozen=True, eq=False)
class Task:
    """A job, the settings of the worker it needs, and its units."""

    settings: Settings
    job: Job
    units: tuple[BuildUnit, ...]

    def after_feedback(self, fed: Fed) -> Task:
        """Return the task of the next call, which gets the result of this task's."""
        units = tuple(unit.after_feedback() for unit in self.units)
        return Task(self.settings, self.job.after_feedback(fed), units)


class Schedule:
    """The tasks that no thread has begun. Safe to use from several threads.

    A thread keeps to the settings of its last task while there are more of them, because other
    settings need another process. Then come settings that no thread works on, then those with the
    most work for each thread on them. Among tasks of equal settings the longest comes
    first, as far as times are known from the same signature for another target.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        tasks = list(tasks)
        self._waiting: dict[Settings, list[Task]] = {}
        for task in tasks:
            self._waiting.setdefault(task.settings, []).append(task)
        self._at_work: Counter[Settings] = Counter()
        self._seconds: dict[str, float] = {}
        self._usual = 1.0
        self._lock = threading.Lock()

    def take(self, last: Settings | None) -> Task:
        """Return the next task for a thread whose last task had these settings."""
        with self._lock:
            open_ones = [settings for settings, tasks in self._waiting.items() if tasks]
            settings = last if last in open_ones else max(open_ones, key=self._urgency)
            task = max(self._waiting[settings], key=self._expected)
            self._waiting[settings].remove(task)
            self._at_work[settings] += 1
            return task

    def finish(self, task: Task, seconds: float | None) -> None:
        """Note that a task is done, and how many seconds it took, if it was compiled."""
        with self._lock:
            self._at_work[task.settings] -= 1
            if seconds is not None:
                self._seconds[task.job.label] = seconds
                self._usual = sum(self._seconds.values()) / len(self._seconds)

    def _urgency(self, settings: Settings) -> tuple[bool, float]:
        work = sum(map(self._expected, self._waiting[settings]))
        return not self._at_work[settings], work / (self._at_work[settings] + 1)

    def _expected(self, task: Task) -> float:
        return self._seconds.get(task.job.label, self._usual)
