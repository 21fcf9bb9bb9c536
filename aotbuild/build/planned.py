"""What a wheel requires, known without reading its manifest again.

Reading a manifest imports pydantic and YAML. A build that finds everything in the store would spend
most of its time there, twice: for the metadata, and for the wheel. So the answer is kept in the
store's first folder, under a key of the manifest's bytes and of all that is installed. It is of
this machine, so no other layer gets it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from aotbuild.spec.canonical import mapping, sha256_hex, text, texts
from aotbuild.store.entry import Entry
from aotbuild.store.file_digests import DIGESTS, FileDigests
from aotbuild.store.keys import planned_key
from aotbuild.store.local import Store
from aotbuild.store.places import front_folder
from aotbuild.toolchains.installed import installed

if TYPE_CHECKING:
    from aotbuild.build.plan import Plan

_LOCKS = "pylock.*.toml"
_SYSTEM = ("/proc/", "/sys/", "/dev/")
# `local`: it means nothing on another machine, so it is not pushed.
_FACTS = {"entry": "planned", "local": True}
# Times of files are this coarse at worst, in nanoseconds.
TICK = 10_000_000


@dataclass(frozen=True)
class PlanInputs:
    """What a plan is made from: a manifest, and what the project around it requires.

    `digests` are those of the store's front.
    """

    root: Path
    manifest: Path
    project: tuple[str, ...]
    digests: FileDigests = field(repr=False, compare=False)

    @cached_property
    def key(self) -> str | None:
        """The store's key of what the plan says; None if the manifest cannot be read."""
        try:
            # A lock that appears makes another environment the manifest's.
            files = [self.manifest, *sorted(self.manifest.parent.glob(_LOCKS))]
            found = [(os.path.relpath(file, self.root), _digest(file)) for file in files]
        except OSError:
            return None
        return planned_key(files=found, project=self.project, installed=installed(self.digests))


def front_digests(environment: Mapping[str, str]) -> FileDigests:
    """Return the digests of files that are kept in the store's front, if there is one."""
    return _kept_in(front_folder(environment))


@cache
def _kept_in(front: Path | None) -> FileDigests:
    # One for both hooks: what is found under a file's times stays true.
    return FileDigests(front / DIGESTS if front else None)


def wheel_needs(
    inputs: PlanInputs, environment: Mapping[str, str], say: Callable[[str], None]
) -> tuple[str, ...] | None:
    """Return the Requires-Dist of a wheel, from the store if it is known.

    None where no jax is installed and the manifest names none. PlanError and ManifestError are
    those of reading the manifest and of the plan.
    """
    store = Store(front_folder(environment))
    if known := known_plan(inputs, store):
        return known.requirements
    key = inputs.key if store.root else None
    started = time.time_ns()
    with _opened() as files:
        plan = _plan(inputs, say)
    if plan is None:
        return None
    # Not at the top: what is known needs none of it.
    from aotbuild.build.requirements import wheel_requirements

    needs = tuple(wheel_requirements(plan))
    digests = _project_files(inputs.root, files, started - TICK)
    # What uv makes or resolves is not in the key.
    if key and digests is not None and not any(t.recipe for t in plan.environment.toolchains):
        store.put(key, Entry({**_FACTS, "requirements": list(needs), "files": digests}, b""))
    return needs


def _plan(inputs: PlanInputs, say: Callable[[str], None]) -> Plan | None:
    from aotbuild.build.plan import make_plan
    from aotbuild.manifest import load_manifest
    from aotbuild.toolchains.environments import find_environment
    from aotbuild.toolchains.toolchain import running_toolchain

    manifest = load_manifest(inputs.manifest)
    if not manifest.toolchains and running_toolchain(needed=False) is None:
        return None
    return make_plan(manifest, find_environment(manifest, inputs.project, say))


@dataclass(frozen=True)
class KnownPlan:
    """What the store has of a plan: the wheel's requirements, and the files read for it."""

    requirements: tuple[str, ...]
    files: tuple[str, ...]


def known_plan(inputs: PlanInputs, store: Store) -> KnownPlan | None:
    """Return what the store has of the plan with these inputs, if all its files are unchanged."""
    key = inputs.key if store.root else None
    found = store.parsed(key, _parsed) if key else None
    if found is None:
        return None
    requirements, files = found
    try:
        if any(_digest(inputs.root / name) != digest for name, digest in files.items()):
            return None
    except OSError:
        return None
    return KnownPlan(requirements, tuple(files))


def _parsed(entry: Entry) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the requirements, and the digests of files by their names below the project."""
    files = {name: text(digest) for name, digest in mapping(entry.facts["files"]).items()}
    for name in files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            msg = f"expected a file of the project, found {name!r}"
            raise ValueError(msg)
    requirements = texts(entry.facts["requirements"])
    list(map(Requirement, requirements))
    return requirements, files


def _digest(file: Path) -> str:
    return sha256_hex(file.read_bytes())


# Audit hooks cannot be removed, so there is one, which adds to these sets.
_listening: list[set[str]] = []


@contextmanager
def _opened() -> Iterator[set[str]]:
    """Collect the path of each file that Python opens in the block: presets, results of tuning."""
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked.append(True)
    found: set[str] = set()
    _listening.append(found)
    try:
        yield found
    finally:
        _listening.remove(found)


_hooked: list[bool] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _listening and isinstance(arguments[0], str | bytes | os.PathLike):
        path = str(Path(os.fsdecode(arguments[0])).absolute())
        for found in _listening:
            found.add(path)


def _project_files(root: Path, opened: set[str], since: int) -> dict[str, str] | None:
    """Return the digests of the project's files among those, by their names.

    None if there are others that are not installed, or if one was written to meanwhile.
    """
    folder = f"{root.resolve()}/"
    own = str(Path(__file__).parents[2])
    places = [sys.prefix, sys.base_prefix, *(p for p in sys.path if p), own]
    installed_in = tuple(f"{place}/" for place in places if not folder.startswith(f"{place}/"))
    found = {}
    for path in opened:
        if path.startswith(installed_in):
            continue
        real = os.path.realpath(path)
        is_own = real.startswith(folder)
        if path.startswith(_SYSTEM) and not is_own:
            continue
        try:
            if not is_own or Path(real).stat().st_ctime_ns >= since:
                return None
            found[real.removeprefix(folder)] = _digest(Path(real))
        except OSError:
            return None
    return found
