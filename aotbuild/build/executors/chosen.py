"""Which machines compile: what `--executor` and AOTBUILD_EXECUTOR say."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from urllib.parse import urlsplit

from aotbuild.build.executors.dask import connect
from aotbuild.build.executors.machines import Machines
from aotbuild.build.executors.slurm import submitting
from aotbuild.build.executors.urls import shown_url
from aotbuild.errors import PlanError

VARIABLE = "AOTBUILD_EXECUTOR"
LOCAL = "local"


def refuse_passwords(text: str) -> None:
    """Raise PlanError for a URL with a user or a password: builds print where they run."""
    if "@" in text:
        msg = "executor: expected a URL without user and password, found an @ in it"
        raise PlanError(msg)


@contextmanager
def open_machines(chosen: Executor | str) -> Iterator[Machines]:
    """Yield the machines that `--executor` names, or those of an executor, which stays open.

    PlanError if there are none of that name, or if they cannot be reached.
    """
    machines = Machines(chosen) if isinstance(chosen, Executor) else _named(chosen)
    try:
        yield machines
    finally:
        machines.close()


def _named(text: str) -> Machines:
    try:
        scheme = urlsplit(text).scheme
    except ValueError:  # such as brackets that do not close
        scheme = ""
    if scheme == "dask":
        return connect(text)
    if scheme == "slurm":
        return submitting(text)
    msg = (
        f"executor: expected {LOCAL}, dask://HOST:PORT or slurm://, found {shown_url(text)!r} "
        f"(--executor, or {VARIABLE})"
    )
    raise PlanError(msg)
