"""Whether the source of recorded functions is what it was when they were called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from aotbuild.format.sources import file_digest
from aotbuild.record.recording import RecordedFunction

_SHOWN = 3


def source_notes(functions: Iterable[RecordedFunction]) -> Iterator[str]:
    """Yield notes on files that changed since, and on packages of which there were two versions."""
    digests: dict[str, str] = {}
    names: dict[str, dict[str, None]] = {}
    versions: dict[str, dict[str, None]] = {}
    for each in functions:
        if each.file and each.digest:
            digests[each.file] = each.digest  # that of the last run
            names.setdefault(each.file, {})[each.call.rpartition(":")[2]] = None
        if each.distribution:
            versions.setdefault(each.distribution, {})[each.version] = None
    for name, found in versions.items():
        if len(found) > 1:
            yield f"recorded with {name} {' and '.join(found)}; record again to have one version"
    for file, digest in digests.items():
        if _digest(file) not in ("", digest):
            yield (
                f"{file} has changed since it was recorded ({_listed([*names[file]])}); record "
                "again if its calls have changed, too"
            )


def _digest(file: str) -> str:
    """Return the digest of a file; empty if it is not here, as on another machine."""
    try:
        return file_digest(Path(file))
    except OSError:
        return ""


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"{more} more"] if more > 0 else [])])
