"""What the workers of a build would read now, known without starting one."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from aotbuild.build.direct.entries import Names
from aotbuild.build.launch import worker_environment, worker_path
from aotbuild.build.settings import Settings
from aotbuild.build.sources import SourceTree
from aotbuild.format.encodings import decide_encodings, encodings
from aotbuild.format.lifeline import run_tied
from aotbuild.store.file_digests import FileDigests
from aotbuild.store.import_path import ImportPath, nowhere, other_finders
from aotbuild.store.marks import Marks, marks_of
from aotbuild.store.read_set import Places, World, joined

# For another interpreter to say what it imports from, in seconds.
_TIMEOUT = 60
# The end is `format.encodings`.
_CODE = """
import importlib.machinery, json, locale, sys
encodings = sys.getfilesystemencoding(), locale.getencoding()
print(json.dumps([sys.version, sys.path, importlib.machinery.all_suffixes(), encodings]))
"""


@dataclass(frozen=True)
class Python:
    """An interpreter: its version, the path of its imports, and the suffixes of modules.

    `encodings` are those that a worker has (`format.encodings`).
    """

    version: str
    path: tuple[str, ...]
    suffixes: tuple[str, ...]
    encodings: tuple[str, ...]


@dataclass
class Worlds:
    """The world of each worker of a build, by its settings. Safe to use from several threads.

    What was listed and found is kept: it must not outlive a build.
    """

    sources: SourceTree
    digests: FileDigests
    _pythons: dict[tuple[Any, ...], Python] = field(default_factory=dict)
    _paths: dict[Path | None, ImportPath] = field(default_factory=dict)
    _states: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _marks: dict[tuple[Any, ...], Marks] = field(default_factory=dict)

    def python(self, settings: Settings) -> Python:
        """Return what a worker's interpreter is; OSError or ValueError if it cannot say."""
        interpreter = settings.toolchain.interpreter
        variables = settings.env if decide_encodings(dict(settings.env)) else ()
        known = interpreter, variables
        if known not in self._pythons:
            self._pythons[known] = _python(settings) if interpreter or variables else _running()
        return self._pythons[known]

    def of(self, settings: Settings) -> World:
        """Return what a worker with these settings would read."""
        toolchain = settings.toolchain
        python = self.python(settings)
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
    return Python(sys.version, tuple(sys.path), tuple(all_suffixes()), encodings())


def _python(settings: Settings) -> Python:
    """Ask an interpreter, in the environment that a worker has."""
    interpreter = settings.toolchain.interpreter
    command = [str(interpreter or sys.executable), "-P", "-c", _CODE]
    done = run_tied(command, _TIMEOUT, worker_environment(settings))
    done.check_returncode()
    found = Python(*map(_frozen, json.loads(done.stdout)))
    return found if interpreter else replace(_running(), encodings=found.encodings)


def _frozen(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found
