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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from aotbuild.format.canonical import canonical_digest, text, texts
from aotbuild.format.sources import file_digest
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
_SITES = ("site-packages", "dist-packages")
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
            found = [(os.path.relpath(file, self.root), file_digest(file)) for file in files]
        except OSError:
            return None
        return planned_key(files=found, project=self.project, installed=installed(self.digests))

    def again(self) -> PlanInputs:
        """Return the same inputs, whose key will be that of what is there then."""
        return replace(self)


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
    started = time.time_ns()
    key = inputs.key if store.root else None
    with _opened() as opened:
        plan = _plan(inputs, say)
    if plan is None:
        return None
    # Not at the top: what is known needs none of it.
    from aotbuild.build.requirements import wheel_requirements
    from aotbuild.platforms.building import description

    needs = tuple(wheel_requirements(plan))
    # What uv makes or resolves is not in the key, nor are devices that XLA measures on.
    is_keyed = not any(toolchain.recipe for toolchain in plan.environment.toolchains)
    if (
        key
        and is_keyed
        and not any(
            description(unit.target.platform).measures(unit.hardware) for unit in plan.units
        )
    ):
        known = _known(inputs.root, needs, opened, started - TICK)
        if known and inputs.again().key == key:
            store.put(key, Entry({**_FACTS, **known.to_json()}, b""))
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
    """What the store has of a plan: the wheel's requirements, and the files read for it.

    `files` has the path of each below the project, as it was opened: a link may be on the way.
    `state` is the digest of where these paths lead to, and of what is there.
    """

    requirements: tuple[str, ...]
    files: tuple[str, ...]
    state: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        files, requirements = list(self.files), list(self.requirements)
        return {"requirements": requirements, "files": files, "state": self.state}

    @classmethod
    def from_entry(cls, entry: Entry) -> KnownPlan:
        """Read the entry of the store; ValueError, TypeError or KeyError for anything else."""
        facts = entry.facts
        found = cls(texts(facts["requirements"]), texts(facts["files"]), text(facts["state"]))
        for name in found.files:
            if Path(name).is_absolute() or os.path.normpath(name).startswith(os.pardir):
                msg = f"expected a file of the project, found {name!r}"
                raise ValueError(msg)
        list(map(Requirement, found.requirements))
        return found


def known_plan(inputs: PlanInputs, store: Store) -> KnownPlan | None:
    """Return what the store has of the plan with these inputs, if all its files are unchanged."""
    key = inputs.key if store.root else None
    found = store.parsed(key, KnownPlan.from_entry) if key else None
    try:
        return found if found and _state(inputs.root, found.files) == found.state else None
    except (OSError, ValueError):  # gone, or names that mean nothing here
        return None


def is_written_since(root: Path, files: Iterable[str], since: int) -> bool:
    """Return whether one of a plan's files, or a link to it, is new or was written to.

    `since` is a time in nanoseconds. Raises OSError for one that is missing.
    """
    paths = [root / name for name in files]
    links = (link for path in paths for link in _links(path))
    times = (path.lstat().st_ctime_ns for path in (*links, *map(_real, paths)))
    return any(time >= since for time in times)


def _state(root: Path, files: Iterable[str]) -> str:
    """Return the digest of where files below the project lead to, and what they say; OSError."""
    real = _real(root)
    rows = [[name, os.path.relpath(_real(root / name), real)] for name in files]
    return canonical_digest([[*row, file_digest(root / row[0])] for row in rows])


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _links(path: Path) -> Iterator[Path]:
    """Yield each link on the way to a file that is there, also those that links lead to."""
    for place in (path, *path.parents):
        if place.is_symlink():
            yield place
            yield from _links(place.parent / place.readlink())


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


def _known(
    root: Path, requirements: tuple[str, ...], opened: Iterable[str], since: int
) -> KnownPlan | None:
    """Return what may be kept of a plan that opened these files.

    None if a file is neither installed nor the project's, or if one was written to meanwhile.
    """
    files = _project_files(root, opened)
    try:
        # In this order: what was written before it was read here is seen behind it.
        state = _state(root, files) if files else ""
        if not files or is_written_since(root, files, since):
            return None
    except OSError:
        return None
    return KnownPlan(requirements, files, state)


def _project_files(root: Path, opened: Iterable[str]) -> tuple[str, ...] | None:
    """Return the paths of the project's files among those, as they were opened, below its folder.

    None if there are others that are not installed.
    """
    roots, real = _forms(root), f"{_real(root)}/"
    installed_in = tuple(f"{place}/" for place in _installed_in(roots))
    found = set()
    for path in opened:
        if path.startswith(installed_in):
            continue
        is_own = os.path.realpath(path).startswith(real)
        if path.startswith(_SYSTEM) and not is_own:
            continue
        names = [path[len(each) + 1 :] for each in roots if path.startswith(f"{each}/")]
        # A path through another folder may lead elsewhere next time.
        if not is_own or not names or os.path.normpath(names[0]).startswith(os.pardir):
            return None
        found.add(names[0])
    return tuple(sorted(found))


def _installed_in(roots: Iterable[str]) -> Iterator[str]:
    """Yield the folders whose files are installed: they count by what is in the plan's key.

    In the project these are environments. Its other folders on the path of imports have sources,
    as `src`, and files of the manifest may be among them.
    """
    own = Path(__file__).parents[1]
    prefixes = {form for p in (sys.prefix, sys.base_prefix, own) for form in _forms(Path(p))}
    path = {form for p in sys.path if p for form in _forms(Path(p))}
    for place in prefixes | path:
        if any(_is_in(root, place) for root in roots):
            continue
        is_of_project = any(_is_in(place, root) for root in roots)
        if place in prefixes or Path(place).name in _SITES or not is_of_project:
            yield place


def _forms(folder: Path) -> tuple[str, ...]:
    """Return a folder's path, and the one without links."""
    return str(folder.absolute()), os.path.realpath(folder)


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
