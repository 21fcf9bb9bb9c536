"""The machines that compile, behind an executor of `concurrent.futures`."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.build.attempt import Tell
from aotbuild.build.executors.bundle import Bundle
from aotbuild.build.executors.machine import run_packet

# A bundle of so many bytes goes along with every attempt: no machine has to ask for it.
SMALL = 1_000_000
# A unit whose attempts lose so many workers fails.
MOST_LOST = 2


class WorkerLost(Exception):
    """An executor's future raises it where the process that ran its call is gone.

    `count` is of processes, if the executor itself has tried again.
    """

    def __init__(self, text: str, count: int = 1) -> None:
        super().__init__(text)
        self.count = count


class Unusable(Exception):
    """An executor's future raises it where no call can succeed."""


@dataclass(frozen=True)
class Lost:
    """So many workers were lost while they had an attempt; the text says how."""

    count: int
    text: str


@dataclass(frozen=True)
class Fatal:
    """No attempt can succeed; the text says why and what to do."""

    text: str


@dataclass(frozen=True)
class Given:
    """How machines get a project's source: its bytes go along, or a file that all of them see.

    With neither, they have it, or ask for its bytes.
    """

    data: bytes | None = None
    file: Path | None = None


class Machines:
    """Any executor. A subclass knows more of its kind: what errors mean, whether it still works.

    `name` is for people.
    """

    def __init__(self, executor: Executor, name: str = "") -> None:
        self.executor = executor
        self.name = name or type(executor).__name__

    def give(self, bundle: Bundle) -> Given:
        """Begin to give the project's source to the machines."""
        return Given(bundle.data if len(bundle.data) <= SMALL else None)

    def submit(
        self, packet: dict[str, Any], bundle: bytes | None, tell: Tell
    ) -> Future[dict[str, Any]]:
        """Have a packet run by some machine; `bundle` is the project's source, if it goes along.

        `tell` gets what is done for it, if the executor has a way to say so while a call runs.
        """
        del tell
        return self.executor.submit(run_packet, packet, bundle)

    def judge(self, error: BaseException) -> Lost | Fatal | None:
        """Return what an executor's error means; None for one that only the attempt has."""
        if isinstance(error, WorkerLost):
            return Lost(error.count, str(error))
        if isinstance(error, Unusable):
            return Fatal(f"{self.name}: {error}")
        if isinstance(error, BrokenExecutor):
            # It cannot be used again, not even for other attempts.
            text = str(error).rstrip(".")
            return Fatal(f"{self.name} broke: {text}; build again")
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("aotbuild"):
            return Fatal(f"{self.name}: {error}: install aotbuild[build] there, in this version")
        return None

    def problem(self) -> str | None:
        """Return why nothing can be expected any more; called about once a second."""
        return None

    def close(self) -> None:
        """Let go of what was opened for this build."""
