"""What a process has imported: the user's own modules of a job, and those of libraries."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec

from aotbuild.store.import_path import ImportPath, is_of_pip
from aotbuild.worker.recording.by_module import ReadsByModule


@dataclass(frozen=True)
class Imported:
    """What is imported: modules of libraries, their files, and those of the user's modules.

    `lost` are files of libraries that no path of imports leads to.
    """

    libraries: set[str]
    lost: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    own_files: set[str] = field(default_factory=set)


def loaded_before(reads: ReadsByModule) -> list[str]:
    """Return the user's own modules that Python imported when it started, before the recorder."""
    found = filter(reads.is_own, [*sys.modules])
    return [name for name in found if not is_of_pip(reads.file(name))]


def closure(reads: ReadsByModule, path: ImportPath, before: Iterable[str]) -> set[str]:
    """Return the own modules that the process has imported for its job, or could not find.

    `before` are modules that Python imported when it started. What code loads by its file, and not
    by its name, is a file that was read.
    """
    found = set[str]()
    waiting = [*before, *reads.roots, *filter(reads.is_own, _wanted_by_libraries(reads))]
    waiting += [name for name in [*sys.modules] if reads.is_own(name) and path.find(name)]
    while waiting:
        name = waiting.pop()
        if name in found or not name or not (reads.is_missing(name) or reads.is_own(name)):
            continue
        found.add(name)
        waiting += [name.rpartition(".")[0], *reads.edges.get(name, ()), *reads.run_by(name)]
    return found


def all_imported(reads: ReadsByModule, path: ImportPath) -> Imported:
    """Return what the process has imported so far."""
    found = Imported(set(filter(reads.is_missing, _wanted_by_libraries(reads))))
    for name, module in [*sys.modules.items()]:
        spec = getattr(module, "__spec__", None)
        if not isinstance(spec, ModuleSpec) or not spec.has_location:
            continue
        origin = str(spec.origin)
        place = path.find(spec.name)
        is_found = place is not None and place.file == origin
        if reads.is_own(name):
            found.own_files.update([origin] if is_found else [])
        elif name.partition(".")[0] != "aotbuild":
            found.files.add(origin)
            if is_found:
                found.libraries.add(spec.name)
            else:
                found.lost.add(origin)
    # Some were executed, and are no modules.
    found.lost.update(reads.library_files - found.files)
    return found


def _wanted_by_libraries(reads: ReadsByModule) -> set[str]:
    return {name for names in [*reads.library_edges.values()] for name in [*names]}
