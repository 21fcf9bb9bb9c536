"""Preloading: executables are loaded before they are called.

Threads help: jaxlib releases the GIL while it deserializes, and hashlib while it hashes. Two
threads were seen at work at once on 0.10.2 (in XLA's own threads) and on 0.12.0.1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError, NoExecutable
from aotbuild.format.record import Record
from aotbuild.runtime.compatibility import Verdict, by_signature, refusal_trace
from aotbuild.runtime.package import Package

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.devices import DeviceSet

_REMEDY = "Build for this host, too; or preload without require=True, and calls say the same."


def preload(
    package: Package, devices: DeviceSet | None, names: Sequence[str], *, required: bool
) -> int:
    """Load what fits of some functions, as `Library.preload` says; return how many were new."""
    backend, loader, settings = package.backend, package.loader, package.backend.settings()
    devices = devices or backend.default_devices()
    host = package.probe(devices)
    best = [each for name in names for each in by_signature(package.index.records(name), host)]
    if required:
        _require(package, host, [verdicts for verdicts in best if not verdicts[0].fits])
    records = [verdicts[0].record for verdicts in best if verdicts[0].fits]
    # Records of the same bytes load them once: they go to one thread, one after the other.
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: -record.blob.size):
        groups.setdefault(record.blob.sha256, []).append(record)

    def load(group: list[Record]) -> tuple[bool, list[AotbuildError]]:
        failures, is_new = [], False
        with settings():
            for record in group:
                placement = backend.default_placement(record, devices)
                try:
                    is_new |= loader.preload(record, placement.devices)
                except AotbuildError as err:
                    failures.append(err)
        return is_new, failures

    with ThreadPoolExecutor(os.cpu_count(), "aotbuild-preload") as pool:
        done = list(pool.map(load, groups.values()))
    failures = [failure for _, each in done for failure in each]
    if len(failures) == 1:
        raise failures[0]
    if failures:
        what = f"{len(failures)} executables could not be preloaded"
        raise AotbuildError("\n".join([what, *map(str, failures)])) from failures[0]
    return sum(is_new for is_new, _ in done)


def _require(package: Package, host: Host, refused: Sequence[tuple[Verdict, ...]]) -> None:
    """Raise NoExecutable if signatures have no executable here."""
    trace = []
    for verdicts in refused:
        lines = refusal_trace(verdicts, host)
        trace += [f"{verdicts[0].record.label}:", *(f"  {line}" for line in lines)]
    if trace:
        summary = f"signatures without an executable that runs here: {len(refused)}"
        raise NoExecutable(package.name, summary, [*trace, *package.absent], _REMEDY)
