"""What travels between a build and a worker machine: dicts of JSON, and bytes.

A packet is one attempt:

| key          | what it is                                                              |
|--------------|-------------------------------------------------------------------------|
| `aotbuild`   | the version that must be there                                          |
| `build`      | which build it is of: a machine keeps compiler processes for it         |
| `id`         | of this submission, so that no cluster answers it from memory           |
| `hello`      | the protocol's message; the machine fills in its own folders            |
| `settings`   | of the worker process, without the toolchain                            |
| `toolchain`  | the exact versions: `toolchains.exact`                                  |
| `job`        | as in the protocol                                                      |
| `timeout`, `golden_timeout` | seconds                                                  |
| `bundle`     | the digest of the project's source                                      |
| `bundle_file` | the path of a file with it that all machines see, or null              |
| `import_root`, `folder` | where in it the package is, and where the process starts     |
| `have`       | names of blobs that the build has already                               |

An answer is one of these:

| key        | what it is                                                                |
|------------|---------------------------------------------------------------------------|
| `refused`  | why this machine cannot work for the build                                |
| `lacks`    | the digest of the source that has to come along                           |
| `failed`   | what went wrong on this machine; another one may do better                |
| `messages` | the job's, each with its time in seconds, as lines of the protocol        |

with `failed` and `messages`: `machine`, its name; and with `messages`: `outcome`, how the attempt
ended; `root`, the folder of
the source there; `entries`, files of the store by key; `blobs`, bytes by file name, or where they
are in the file of an entry: its key, and how many bytes at its end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aotbuild.build.attempt import Exited, Outcome, Request
from aotbuild.build.executors.bundle import Bundle
from aotbuild.build.jobs import Job
from aotbuild.build.requests import Hello
from aotbuild.build.settings import Settings
from aotbuild.toolchains.exact import ExactToolchain
from aotbuild.toolchains.toolchain import Toolchain


def make_packet(
    build: str,
    hello: Hello,
    request: Request,
    toolchain: ExactToolchain,
    bundle: Bundle,
    have: Iterable[str],
    file: Path | None = None,
) -> dict[str, Any]:
    """Return the packet of one attempt.

    `have` are the names of blobs that need not come back, `file` has the bundle.
    """
    own = {"blobs", "store", "behind", "root", "digests"}
    return {
        "aotbuild": hello.provenance["aotbuild"],
        "build": build,
        "id": os.urandom(8).hex(),
        "hello": hello.model_dump(mode="json", exclude=own),
        "settings": request.settings.to_json(),
        "toolchain": toolchain.to_json(),
        "job": request.job.model_dump(mode="json"),
        "timeout": request.timeout,
        "golden_timeout": request.golden_timeout,
        "bundle": bundle.digest,
        "bundle_file": file and str(file),
        "import_root": bundle.import_root,
        "folder": bundle.folder,
        "have": sorted(have),
    }


def read_request(packet: dict[str, Any], toolchain: Toolchain) -> Request:
    """Return the attempt of a packet, with its toolchain as this machine has it."""
    settings = Settings.from_json(packet["settings"], toolchain)
    job = Job.model_validate(packet["job"])
    return Request(settings, job, packet["timeout"], packet["golden_timeout"])


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the JSON form of how an attempt ended."""
    return asdict(outcome)


def outcome_from_json(data: dict[str, Any]) -> Outcome:
    """Read what `outcome_to_json` wrote."""
    exited = data["exited"]
    return Outcome(**{**data, "exited": exited and Exited(**exited)})
