"""Why what a job read may not be all that decides its result."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec

from aotbuild.store.import_path import ImportPath
from aotbuild.worker.recording.by_module import ReadsByModule
from aotbuild.worker.recording.natives import leading_to_readers, with_parents
from aotbuild.worker.recording.owners import EVERYBODY


def obstacles_of(reads: ReadsByModule, path: ImportPath, modules: Iterable[str]) -> Iterator[str]:
    """Yield each reason for which nothing stands for the inputs of a job of these own modules."""
    leading = leading_to_readers(reads.library_edges)
    for name in sorted(modules):
        yield from (f"{name} {what}" for what in _obstacles_of_module(reads, path, name, leading))
    yield from (f"a library {what}" for what in sorted(reads.by(EVERYBODY).obstacles))
    yield from sorted(reads.search.problems)


def _obstacles_of_module(
    reads: ReadsByModule, path: ImportPath, name: str, leading: Mapping[str, str]
) -> Iterator[str]:
    yield from sorted(reads.by(name).obstacles)
    wanted = {each for n in reads.edges.get(name, ()) for each in with_parents(n)}
    for library in sorted({leading[each] for each in wanted & leading.keys()}):
        yield f"uses {library}, which reads files where nothing sees it"
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if not isinstance(spec, ModuleSpec) or not spec.has_location:
        return
    place = path.find(name)
    if place is None or place.file != spec.origin:
        yield "is not where the path of imports leads to"
