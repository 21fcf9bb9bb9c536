"""Names in records that calls will refuse, because the project does not require what has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from aotbuild.build.sources import SourceTree
from aotbuild.format.dependencies import is_complete, of_project
from aotbuild.format.imports import Imports, top_of
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.tree import types_in


def import_notes(
    records: Iterable[Record],
    functions: Iterable[Function],
    sources: SourceTree,
    fallback: str,
    interpreter: Path | None,
) -> Iterator[str]:
    """Yield a note for each name in records that `runtime.imports` will refuse.

    `interpreter` is that of the environment that compiled; None for this process. Nothing is
    yielded where a metadata hook decides what the project requires.
    """
    named: dict[str, dict[str, None]] = {}
    for record in records:
        for name in _names(record):
            named.setdefault(name, {})[record.function] = None
    if fallback == "jit":
        for function in functions:
            named.setdefault(function.call, {})[function.name] = None
    path = _site_packages(interpreter)
    if path == [] or not is_complete(sources.root):
        return
    imports = Imports(sources.package, dependencies=lambda: of_project(sources.root, path))
    for name, of in named.items():
        module = name.partition(":")[0]
        if not _is_of_project(module, sources) and not imports.allows(module):
            top = top_of(module)
            yield (
                f"{', '.join(of)}: calls import {name}, and the project requires nothing that has "
                f"{top}: they raise ImportRefused; add what has it to the dependencies in "
                f"pyproject.toml, or load with allow_imports=[{top!r}]"
            )


def _names(record: Record) -> Iterator[str]:
    """Yield what calls of a record import."""
    calling = record.calling
    yield from (name for _, name in types_in(calling.out_tree))
    yield from (callback.call for callback in calling.callbacks if callback.call)
    yield from (template.like for template in calling.templates)
    if calling.returned:
        yield calling.returned.like


def _is_of_project(module: str, sources: SourceTree) -> bool:
    place = sources.import_root / top_of(module)
    return place.is_dir() or place.with_suffix(".py").is_file()


def _site_packages(interpreter: Path | None) -> list[str] | None:
    """Return where an environment has its distributions; none if it is of another machine."""
    if interpreter is None:
        return None
    prefix = interpreter.parent.parent
    folders = [*prefix.glob("lib/python*/site-packages"), prefix / "Lib" / "site-packages"]
    return [str(folder) for folder in folders if folder.is_dir()]
