"""Whether an `_aot` folder is what a build would write now, as far as that is known without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from aotbuild.build.plan import Plan
from aotbuild.build.sources import SourceTree
from aotbuild.errors import AotbuildError
from aotbuild.format.files import read_regular
from aotbuild.format.index import INDEX_NAME, MOST_INDEX, Index
from aotbuild.format.record import Record
from aotbuild.format.sources import read_sources

_SHOWN = 5


def out_of_date(plan: Plan, sources: SourceTree, folder: Path) -> list[str]:
    """Return why a build is needed; empty if the folder has what the plan asks for.

    It imports and compiles nothing. Files that were read while tracing, as weights, and libraries
    but jax are not compared.
    """
    try:
        index = Index.open(read_regular(folder / INDEX_NAME, MOST_INDEX), str(folder / INDEX_NAME))
        records = [r for f in index.functions() for r in index.records(f.name)]
        return [
            *_sources(index, sources, plan),
            *_versions(index, plan),
            *_units(records, plan),
        ]
    except (FileNotFoundError, NotADirectoryError):
        return [f"{folder}: nothing is built"]
    except OSError as err:
        return [f"{err.filename or folder}: {err.strerror}"]
    except (AotbuildError, ValueError) as err:
        return [f"{folder}: {err}"]


def _sources(index: Index, sources: SourceTree, plan: Plan) -> Iterator[str]:
    known = read_sources(index.header)
    if known is None:
        yield "the index does not say which files were compiled: an older aotbuild wrote it"
        return
    for name in known.changed(sources.root):
        if other := known.imported_instead(sources.root, name):
            yield f"{name}: {other} is imported in its place since it was compiled"
            continue
        state = "changed" if (sources.root / name).is_file() else "is missing"
        yield f"{name}: {state} since it was compiled"
    if known.content not in (None, plan.manifest.content):
        yield "the manifest, or a file that it names, says something else since it was compiled"


def _versions(index: Index, plan: Plan) -> Iterator[str]:
    toolchains = plan.environment.toolchains
    expected = {
        "aotbuild": plan.environment.aotbuild,
        "jax": ", ".join(dict.fromkeys(t.jax for t in toolchains)),
        "jaxlib": ", ".join(dict.fromkeys(t.jaxlib for t in toolchains)),
        "package": plan.manifest.package,
        "fallback": plan.manifest.fallback,
    }
    for name, value in expected.items():
        found = index.header.get(name)
        if found != value:
            yield f"{name}: expected {value}, found {found}"


def _units(records: Iterable[Record], plan: Plan) -> Iterator[str]:
    """Yield functions and targets of one side only."""
    planned = {f"{unit.name} for {unit.target}" for unit in plan.units}
    built = {f"{record.function} for {record.target}" for record in records}
    yield from _some("not built", planned - built)
    yield from _some("not in the manifest", built - planned)


def _some(words: str, names: set[str]) -> Iterator[str]:
    more = len(names) - _SHOWN
    if names:
        rest = f" and {more} more" if more > 0 else ""
        yield f"{words}: {', '.join(sorted(names)[:_SHOWN])}{rest}"
