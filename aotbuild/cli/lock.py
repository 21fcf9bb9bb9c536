"""`aotbuild lock`: pin the toolchains of a manifest, one standard lock file each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import UsageError, command, flag
from aotbuild.cli.output import Output, say
from aotbuild.cli.project import PROJECT
from aotbuild.report.words import plural

if TYPE_CHECKING:
    from aotbuild.toolchains.resolve import WrittenLock


@command(
    "Pin the toolchains of a manifest.",
    PROJECT,
    flag("--upgrade", help="Take the newest versions, not those of the lock."),
    flag("--check", help="Write nothing; fail where a lock is out of date."),
)
def lock(output: Output, manifest: Path, root: Path | None, upgrade: bool, check: bool) -> None:
    """Resolve each toolchain of MANIFEST and write a lock beside it, to be committed.

    A build then makes its environments from these files, with exactly their versions and hashes.
    This runs no code of packages, and none of your own pyproject.toml.
    """
    from aotbuild.build.project import find_sources
    from aotbuild.manifest import load_manifest
    from aotbuild.toolchains.project import project_requirements
    from aotbuild.toolchains.resolve import check_locks, write_locks

    if upgrade and check:
        msg = "--upgrade and --check exclude each other"
        raise UsageError(msg)
    loaded = load_manifest(manifest)
    sources = find_sources((root or manifest.parent).resolve(), loaded.package)
    project = project_requirements(sources.root, run_code=False)
    locks: list[dict[str, Any]] = output.document.setdefault("locks", [])
    write = partial(write_locks, upgrade=upgrade)
    for written in (check_locks if check else write)(loaded, project):
        locks.append(_document(written))
        output.text(_line(written))
        for place in written.local:
            say(f"{written.file.name} names {place}, which is on this machine alone")


def _line(written: WrittenLock) -> str:
    versions = dict(written.lock.versions)
    state = "written" if written.changed else "unchanged"
    packages = plural(len(versions), "package")
    return f"{written.file}: {state}, jax {versions['jax']}, {packages}"


def _document(written: WrittenLock) -> dict[str, Any]:
    return {
        "file": written.file.name,
        "changed": written.changed,
        "versions": dict(written.lock.versions),
        "local": list(written.local),
    }
