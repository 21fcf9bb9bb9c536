"""What the workers of a build would read now, known without starting one."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from aotbuild.build.direct.entries import Names
from aotbuild.build.launch import worker_environment, worker_path
from aotbuild.build.settings import Settings
from aotbuild.build.sources import SourceTree
from aotbuild.spec.lifeline import run_tied
from aotbuild.store.file_digests import FileDigests
from aotbuild.store.import_path import ImportPath, nowhere, other_finders
from aotbuild.store.marks import Marks, marks_of
from aotbuild.store.read_set import Places, World, joined
from aotbuild.toolchains.toolchain import Toolchain

# For another interpreter to say what it imports from, in seconds.
_TIMEOUT = 60
_CODE = """
import importlib.machinery, json, sys
print(json.dumps([sys.version, sys.path, importlib.machinery.all_suffixes()]))
"""


@dataclass(frozen=True)
class Python:
    """An interpreter: its version, the path of its imports, and the suffixes of modules."""

    version: str
    path: tuple[str, ...]
    suffixes: tuple[str, ...]


@dataclass
class Worlds:
    """The world of each worker of a build, by its settings. Safe to use from several threads.

    What was listed and found is kept: it must not outlive a build.
    """

    sources: SourceTree
    digests: FileDigests
    _pythons: dict[Path | None, Python] = field(default_factory=dict)
    _paths: dict[Path | None, ImportPath] = field(default_factory=dict)
    _states: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _marks: dict[tuple[Any, ...], Marks] = field(default_factory=dict)

    def python(self, toolchain: Toolchain) -> Python:
        """Return what a toolchain's interpreter is; OSError or ValueError if it cannot say."""
        interpreter = toolchain.interpreter
        if interpreter not in self._pythons:
            self._pythons[interpreter] = _asked(interpreter) if interpreter else _running()
        return self._pythons[interpreter]

    def of(self, settings: Settings) -> World:
        """Return what a worker with these settings would read."""
        toolchain = settings.toolchain
        python = self.python(toolchain)
        if toolchain.interpreter not in self._paths:
            own = worker_path(toolchain, self.sources.import_root)
            rest = python.path if toolchain.interpreter else ()
            others = nowhere if toolchain.interpreter else other_finders
            path = ImportPath(tuple(filter(None, (*own, *rest))), python.suffixes, others)
            self._paths[toolchain.interpreter] = path
        places = Places(str(self.sources.root), self._paths[toolchain.interpreter])
        return World(places, self.digests, worker_environment(settings))

    def state(self, world: World, names: Names) -> str:
        """Return the state of what a job reads; most jobs of a build share a part of it."""
        known = _shared_by(world, names)
        if known not in self._states:
            self._states[known] = world.state(names.shared)
        return joined(world.state(names.own), self._states[known])

    def marks(self, world: World, names: Names) -> tuple[Marks, Marks]:
        """Return the marks of what a job reads, its own and the shared ones."""
        known = _shared_by(world, names)
        if known not in self._marks:
            self._marks[known] = marks_of(world.rows(names.shared))
        return marks_of(world.rows(names.own)), self._marks[known]


def _shared_by(world: World, names: Names) -> tuple[Any, ...]:
    """Return what the state of shared names depends on."""
    values = str([world.variable(name) for name in names.shared.variables])
    return names.shared_digest, id(world.places.path), values


def _running() -> Python:
    return Python(sys.version, tuple(sys.path), tuple(all_suffixes()))


def _asked(interpreter: Path) -> Python:
    command = [str(interpreter), "-P", "-c", _CODE]
    done = run_tied(command, _TIMEOUT)
    done.check_returncode()
    version, path, suffixes = json.loads(done.stdout)
    return Python(version, tuple(path), tuple(suffixes))
