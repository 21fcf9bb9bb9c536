"""What a build tells its worker processes, and the base of all messages (`build.protocol`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from aotbuild.build.jobs import Job

# Increase it with every change that an older side would misread.
VERSION = 6


class Message(BaseModel):
    """What all messages share: immutable, and no field that the class does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Hello(Message):
    """Settings for a worker's whole life. Paths are absolute.

    After `ready`, each line of the worker begins with `token`, which the user's code does not know.

    `blobs` is the folder for what it makes; `store` is the front of the store, if there is one.
    `behind` says that the build can fetch entries that it lacks. `root` is the project's folder, if
    its modules are to be reported. `keep` names the stages to keep. No byte of a package may
    contain one of `secret_paths`. Each record's provenance begins with `provenance`. `config` holds
    settings of jax. With `explain`, the worker only traces.
    """

    type: Literal["hello"] = "hello"
    version: int = VERSION
    token: str = ""
    blobs: Path
    store: Path | None = None
    behind: bool = False
    root: Path | None = None
    keep: tuple[str, ...] = ()
    secret_paths: tuple[str, ...] = ()
    provenance: dict[str, str] = {}
    config: tuple[tuple[str, Any], ...] = ()
    explain: bool = False


class RunJob(Message):
    """One trace, and the targets to compile it for."""

    type: Literal["job"] = "job"
    job: Job


class Fetched(Message):
    """Whether the folder of the store now has the entry that the worker wanted."""

    type: Literal["fetched"] = "fetched"
    found: bool


Request = Hello | RunJob | Fetched
