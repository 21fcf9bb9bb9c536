"""The outer key: all that is known of a job before anything of the project is read."""

from __future__ import annotations

from functools import cache
from typing import Any

from aotbuild.build.attempt import Request
from aotbuild.build.direct.world import Python
from aotbuild.build.requests import Hello
from aotbuild.build.settings import Settings
from aotbuild.build.sources import SourceTree
from aotbuild.format.record import Record
from aotbuild.platforms.base import machine
from aotbuild.platforms.building import description
from aotbuild.store.file_digests import FileDigests
from aotbuild.store.keys import direct_key
from aotbuild.toolchains.installed import own_code


def outer_key(
    request: Request, hello: Hello, sources: SourceTree, python: Python, digests: FileDigests
) -> str:
    """Return the key of a job, the worker that it needs, and the machine it runs on.

    The manifest's digest is not in it: a job has its own part of the manifest.
    """
    settings, job = request.settings, request.job
    facts: dict[str, Any] = {
        "aotbuild": own_code(digests),
        "job": job.model_dump(mode="json"),
        "python": python.version,
        "encodings": list(python.encodings),
        "toolchain": str(settings.toolchain),
        "platform": settings.platform,
        "cap": settings.cap,
        "devices": settings.devices,
        "hoist": settings.hoist,
        "config": [list(pair) for pair in settings.config],
        "env": [list(pair) for pair in settings.env],
        "hardware": settings.hardware and settings.hardware.to_json(),
        "machine": machine_facts(),
        "deciding": [
            description(target.platform).deciding_facts(hardware)
            for target, hardware in zip(job.targets, job.hardware, strict=True)
        ],
        "keep": list(hello.keep),
        "provenance": [
            known_provenance(target.platform, settings, hello) for target in job.targets
        ],
        "import_root": sources.below(sources.import_root),
    }
    return direct_key(facts)


def known_provenance(platform: str, settings: Settings, hello: Hello) -> dict[str, Any]:
    """Return what the provenance of a platform's records says of their process."""
    known = description(platform).known_provenance
    return {**known(settings.toolchain, fix_hashes=hello.fix_hashes)}


def is_as_known(record: Record, settings: Settings, hello: Hello) -> bool:
    """Return whether the process that made a record was what the outer key says."""
    known = known_provenance(record.target.platform, settings, hello)
    return known.items() <= record.provenance.items()


@cache
def machine_facts() -> list[Any]:
    """Return what is known of this machine's CPU, which computes golden outputs."""
    return machine().to_json()
