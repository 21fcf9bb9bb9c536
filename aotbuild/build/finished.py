"""A finished build of a wheel, taken from the store by one with the same inputs.

Direct mode finds each job without a worker, but it needs the plan, and so the manifest, pydantic
and YAML. Nothing of that is imported here: the key is that of what a plan is made from
(`build.planned`), and what all jobs read is looked at together. Like a plan's requirements, a
finished build is kept in the store's first folder only; `build.keeping` does it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from aotbuild.build.direct.reads import VARIABLE
from aotbuild.build.planned import KnownPlan, PlanInputs, known_plan
from aotbuild.build.sources import SourceTree, find_sources
from aotbuild.errors import PlanError
from aotbuild.format.canonical import mapping, optional, sha256_hex, text, texts, whole
from aotbuild.format.encodings import encodings
from aotbuild.format.index import INDEX_NAME
from aotbuild.format.layout import BLOBS
from aotbuild.format.shard import Shard
from aotbuild.format.switches import is_on
from aotbuild.format.temporary import remove_abandoned
from aotbuild.store.entry import Entry
from aotbuild.store.folder import KEY
from aotbuild.store.import_path import ImportPath, other_finders
from aotbuild.store.keys import finished_key
from aotbuild.store.local import Store
from aotbuild.store.places import front_folder, writes_elsewhere
from aotbuild.store.read_set import Places, ReadSet, World

# Variables that decide something, and which of them do not: where things are, and how many at once.
_DECISIVE = ("AOTBUILD_", "SOURCE_DATE_EPOCH")
_INDIFFERENT = frozenset(
    {
        *("AOTBUILD_DEBUG", "AOTBUILD_DIRECT", "AOTBUILD_JOBS"),
        *("AOTBUILD_STORE", "AOTBUILD_STORE_KEY", "AOTBUILD_STORE_STRICT", "AOTBUILD_STORE_TRUST"),
        *("AOTBUILD_TOOLCHAINS", "AOTBUILD_TIMEOUT", "AOTBUILD_LIFELINE"),
    }
)
# The name of a blob's file: its digest and its kind.
_BLOB = re.compile(r"([0-9a-f]{64})\.[A-Za-z0-9]+")
_TAG = re.compile(r"[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+")


@dataclass(frozen=True)
class WheelInputs:
    """What a wheel is made from: its plan's inputs, and where its packages may be.

    `packages` are folders below the project. `shard` is the only share that is built, if it is not
    everything.
    """

    plan: PlanInputs
    packages: tuple[str, ...]
    shard: Shard | None = None

    def key(self, plan: KnownPlan, environment: Mapping[str, str]) -> str | None:
        """Return the store's key of a finished build; None if none is kept of these inputs.

        `plan` is what is known of the plan now, so an edit of one of its files is another key.
        """
        if self.plan.key is None or self.shard:
            return None
        return finished_key(
            plan=self.plan.key,
            files=plan.state,
            packages=self.packages,
            encodings=encodings(),
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

    `package` is the import package that gets it, and `tag` the wheel's. `lines` and `notes` are for
    the user, and `made` begins the last line. `missing` says how many units were left out, as
    `2 units`; `size_remedy` ends a note about the size. `checked` is when this build found its
    sources to be what was compiled, in nanoseconds; 0 for one of the store, which are compared
    first.
    """

    package: str
    tag: str
    lines: tuple[str, ...]
    made: str
    notes: tuple[str, ...] = ()
    missing: str = ""
    size_remedy: str = ""
    checked: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, without what is of this build alone."""
        return {name: value for name, value in asdict(self).items() if name != "checked"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finished:
        """Read the JSON form; ValueError, TypeError or KeyError for anything else."""
        found = cls(
            package=text(data["package"]),
            tag=text(data["tag"]),
            lines=texts(data["lines"]),
            made=text(data["made"]),
            notes=texts(data["notes"]),
            missing=text(data["missing"]),
            size_remedy=text(data["size_remedy"]),
        )
        if not all(map(str.isidentifier, found.package.split("."))):
            msg = f"expected a package, found {found.package!r}"
            raise ValueError(msg)
        if not _TAG.fullmatch(found.tag):
            msg = f"expected the tag of a wheel, found {found.tag!r}"
            raise ValueError(msg)
        return found


@dataclass(frozen=True)
class KeptBuild:
    """A finished build as the store has it: what it says, its index, and where its blobs are.

    `blobs` has the store's key of each blob by the name of its file, and `used` the keys of all
    entries that the build used or made. `import_root` is where the package was in the project.
    `state` is what was found under the names in `reads`.
    """

    finished: Finished
    index: bytes
    blobs: Mapping[str, str]
    used: tuple[str, ...]
    import_root: str | None
    reads: ReadSet
    state: str

    def to_entry(self) -> Entry:
        """Return the entry of the store; `local`, as it means nothing on another machine."""
        facts = {
            "entry": "finished",
            "local": True,
            "finished": self.finished.to_json(),
            "import_root": self.import_root,
            "reads": self.reads.to_json(),
            "state": self.state,
            "index": len(self.index),
            "blobs": dict(self.blobs),
            "used": list(self.used),
        }
        return Entry(facts, self.index)

    @classmethod
    def from_entry(cls, entry: Entry) -> KeptBuild:
        """Read such an entry; ValueError, TypeError or KeyError for anything else.

        Names and keys become paths, so nothing but what this writes is taken.
        """
        facts, end = entry.facts, whole(entry.facts["index"])
        blobs, used = mapping(facts["blobs"]), texts(facts["used"])
        if not 0 < end <= len(entry.data):
            msg = f"expected an index of at most {len(entry.data)} bytes, found {end}"
            raise ValueError(msg)
        for name in blobs:
            _check(_BLOB, name)
        for key in (*blobs.values(), *used):
            _check(KEY, key)
        return cls(
            Finished.from_json(mapping(facts["finished"])),
            entry.data[:end],
            blobs,
            used,
            optional(text, facts["import_root"]),
            ReadSet.from_json(mapping(facts["reads"])),
            text(facts["state"]),
        )


def _check(pattern: re.Pattern[str], found: str) -> None:
    if not pattern.fullmatch(found):
        msg = f"expected {pattern.pattern}, found {found!r}"
        raise ValueError(msg)


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
    plan = known_plan(inputs.plan, store)
    key = inputs.key(plan, environment) if plan else None
    kept = store.parsed(key, KeptBuild.from_entry) if key else None
    if not kept or not plan or not _has_all(stated, plan.requirements):
        return None
    try:
        return _recalled(inputs, kept, folder, store, environment)
    except (OSError, PlanError, ValueError):  # names that mean nothing here, for a build to say
        return None


def _recalled(
    inputs: WheelInputs, kept: KeptBuild, folder: Path, store: Store, environment: Mapping[str, str]
) -> Finished | None:
    sources = inputs.sources(kept.finished.package)
    if sources.below(sources.import_root) != kept.import_root:
        return None
    if inputs.world(sources, environment).state(kept.reads) != kept.state:
        return None
    inputs.plan.digests.save()
    if not _write_folder(folder, kept, store):
        return None
    # What a build of these jobs would have done, too: pruning goes by the last use.
    if store.root:
        remove_abandoned(store.root)
        for used in kept.used:
            store.use(used)
    return kept.finished


def _has_all(stated: Iterable[str], needed: Iterable[str]) -> bool:
    return set(map(Requirement, needed)) <= set(map(Requirement, stated))


def _write_folder(folder: Path, kept: KeptBuild, store: Store) -> bool:
    """Write an `_aot` folder, whole or not at all; False if the store lacks a blob."""
    staging = folder.with_name(f"{folder.name}.part")
    (staging / BLOBS).mkdir(parents=True)
    for name, key in kept.blobs.items():
        entry = store.get(key)
        if entry is None or sha256_hex(entry.data) != name.partition(".")[0]:
            return False
        (staging / BLOBS / name).write_bytes(entry.data)
    (staging / INDEX_NAME).write_bytes(kept.index)
    staging.rename(folder)
    return True
