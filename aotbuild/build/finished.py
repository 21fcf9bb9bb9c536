"""A finished build of a wheel, taken from the store by one with the same inputs.

Direct mode finds each job without a worker, but it needs the plan, and so the manifest, pydantic
and YAML. Nothing of that is imported here: the key is that of what a plan is made from
(`build.planned`), and what all jobs read is looked at together. Like a plan's requirements, a
finished build is kept in the store's first folder only; `build.keeping` does it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from aotbuild.build.direct.reads import VARIABLE
from aotbuild.build.planned import PlanInputs, known_plan
from aotbuild.build.sources import SourceTree, find_sources
from aotbuild.errors import PlanError
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.index import INDEX_NAME
from aotbuild.spec.layout import BLOBS
from aotbuild.spec.shard import Shard
from aotbuild.spec.switches import is_on
from aotbuild.spec.temporary import remove_abandoned
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Folder
from aotbuild.store.import_path import ImportPath, other_finders
from aotbuild.store.keys import finished_key
from aotbuild.store.local import Store
from aotbuild.store.places import front_folder, writes_elsewhere
from aotbuild.store.read_set import Places, ReadSet, World

# Variables that decide something, and which of them do not: where things are, and how many at once.
_DECISIVE = ("AOTBUILD_", "SOURCE_DATE_EPOCH")
_INDIFFERENT = frozenset(
    {
        *("AOTBUILD_DEBUG", "AOTBUILD_DIRECT", "AOTBUILD_JOBS", "AOTBUILD_SIGNING_PASSPHRASE"),
        *("AOTBUILD_STORE", "AOTBUILD_STORE_KEY", "AOTBUILD_STORE_TRUST", "AOTBUILD_TOOLCHAINS"),
    }
)
# What an entry of anybody's may raise.
_BROKEN = (OSError, PlanError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class WheelInputs:
    """What a wheel is made from: its plan's inputs, and where its packages may be.

    `packages` are folders below the project. `name` and `version` are those of the wheel. `sbom`
    asks for a bill of materials, which has both. `shard` is the only share that is built, if it is
    not everything.
    """

    plan: PlanInputs
    packages: tuple[str, ...]
    name: str
    version: str
    sbom: bool
    shard: Shard | None = None

    def key(self, environment: Mapping[str, str]) -> str | None:
        """Return the store's key of a finished build; None if none is kept of these inputs."""
        if self.plan.key is None or self.shard:
            return None
        return finished_key(
            plan=self.plan.key,
            packages=self.packages,
            sbom=(self.name, self.version) if self.sbom else (),
            variables={
                name: value
                for name, value in environment.items()
                if name.startswith(_DECISIVE) and name not in _INDIFFERENT
            },
        )

    def sources(self, package: str) -> SourceTree:
        """Return where a package is; PlanError if it is not in the project."""
        return find_sources(self.plan.root, package, self.packages)

    def world(self, sources: SourceTree, environment: Mapping[str, str]) -> World:
        """Return what the workers of this Python would read."""
        entries = (str(sources.import_root), *(str(Path(p).absolute()) for p in sys.path if p))
        path = ImportPath(entries, tuple(all_suffixes()), other_finders)
        return World(Places(str(self.plan.root), path), self.plan.digests, environment)


@dataclass(frozen=True)
class Finished:
    """What a build says of the folder that it made.

    `package` is the import package that gets it, `tag` the wheel's, and `sbom` its bill of
    materials, if there is one. `lines` and `notes` are for the user, and `made` begins the last
    line. `missing` says how many units were left out, as `2 units`; `size_remedy` ends a note about
    the size.
    """

    package: str
    tag: str
    lines: tuple[str, ...]
    made: str
    notes: tuple[str, ...] = ()
    missing: str = ""
    size_remedy: str = ""
    sbom: bytes | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, without the bill of materials."""
        return {name: value for name, value in asdict(self).items() if name != "sbom"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], sbom: bytes | None) -> Finished:
        """Read the JSON form."""
        lists = {name: tuple(data[name]) for name in ("lines", "notes")}
        return cls(**{**data, **lists, "sbom": sbom})


def recall_build(
    inputs: WheelInputs, folder: Path, stated: Iterable[str], environment: Mapping[str, str]
) -> Finished | None:
    """Write the `_aot` folder of an earlier build with these inputs, if the store has it whole.

    `stated` are the requirements in the wheel's metadata. If they lack one of the plan's, nothing
    is written, and a build will say so. Where a build also writes to other layers, it has to run.
    """
    if not is_on(VARIABLE, environment) or writes_elsewhere(environment):
        return None
    store = Store(front_folder(environment))
    key = inputs.key(environment) if store.root else None
    entry = store.get(key) if key else None
    plan = known_plan(inputs.plan, store) if entry else None
    if not entry or not plan or not _has_all(stated, plan.requirements):
        return None
    try:
        return _recalled(inputs, entry, folder, store, environment)
    except _BROKEN:
        return None


def _recalled(
    inputs: WheelInputs, entry: Entry, folder: Path, store: Store, environment: Mapping[str, str]
) -> Finished | None:
    facts = entry.facts
    sources = inputs.sources(facts["finished"]["package"])
    if sources.below(sources.import_root) != facts["import_root"]:
        return None
    if (
        inputs.world(sources, environment).state(ReadSet.from_json(facts["reads"]))
        != facts["state"]
    ):
        return None
    inputs.plan.digests.save()
    if not _write_folder(folder, facts, entry.data, store):
        return None
    # What a build of these jobs would have done, too: pruning goes by the last use.
    if store.root:
        remove_abandoned(store.root)
        for used in facts["used"]:
            Folder(store.root).touch(used)
    return Finished.from_json(facts["finished"], entry.data[facts["index"] :] or None)


def _has_all(stated: Iterable[str], needed: Iterable[str]) -> bool:
    return set(map(Requirement, needed)) <= set(map(Requirement, stated))


def _write_folder(folder: Path, facts: Mapping[str, Any], data: bytes, store: Store) -> bool:
    """Write an `_aot` folder, whole or not at all; False if the store lacks a blob."""
    staging = folder.with_name(f"{folder.name}.part")
    (staging / BLOBS).mkdir(parents=True)
    for name, (sha256, key) in facts["blobs"].items():
        entry = store.get(key)
        if entry is None or sha256_hex(entry.data) != sha256:
            return False
        (staging / BLOBS / name).write_bytes(entry.data)
    (staging / INDEX_NAME).write_bytes(data[: facts["index"]])
    staging.rename(folder)
    return True
