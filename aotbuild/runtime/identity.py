"""What an opened package is: its distribution, its digest, and what built it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aotbuild.format.index import FORMAT, Index
from aotbuild.runtime.distribution import Distribution, distribution_at
from aotbuild.runtime.observers import log

if TYPE_CHECKING:
    from aotbuild.runtime.companions import Companion
    from aotbuild.runtime.package import OpenedPackage


def distribution_of(opened: OpenedPackage) -> Distribution | None:
    """Return the distribution of a package; None for a folder that none lists."""
    return distribution_at(opened.source.place, opened.index.header)


def info(opened: OpenedPackage) -> dict[str, Any]:
    """Return what a package is, as plain data; the keys are in the reference of the runtime."""
    index, distribution = opened.index, distribution_of(opened)
    header = index.header
    functions = index.function_count
    return {
        "package": header.get("package"),
        "distribution": distribution and vars(distribution),
        "digest": index.digest,
        "place": opened.source.place,
        "format": FORMAT,
        **{name: header.get(name) for name in ("aotbuild", "jax", "jaxlib", "fallback")},
        "functions": functions,
        "executables": index.row_count - functions,
        "companions": [_companion(companion) for companion in opened.companions],
    }


def _companion(companion: Companion) -> dict[str, Any]:
    index: Index | None = companion.index
    return {
        "part": companion.part,
        "distribution": companion.distribution,
        "version": companion.version,
        "digest": index and index.digest,
    }


def log_opened(opened: OpenedPackage) -> None:
    """Log one line at level INFO; the log record has what `info` returns as `aotbuild_info`."""
    facts = info(opened)
    wheel = facts["distribution"]
    there = [
        f"{each['distribution']} {each['version'] or 'not installed'}"
        for each in facts["companions"]
    ]
    words = (
        f"{facts['package']}@{facts['digest']}",
        f"{wheel['name']} {wheel['version']}" if wheel else "no distribution",
        f"built by jax {facts['jax']} and jaxlib {facts['jaxlib']}",
        f"functions: {facts['functions']}, executables: {facts['executables']}",
        *([f"companions {', '.join(there)}"] if there else []),
        f"at {facts['place']}",
    )
    # One line, whatever a header says.
    line = " ".join(", ".join(words).split())
    log("info", "opened", f"opened {line}", package=facts["package"], info=facts)
