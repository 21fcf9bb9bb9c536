"""Files of the project that were edited while a build compiled them: then it ends with an error.

A wheel would have the edited text beside executables of the old one, and nothing could tell. Only
files that changed since the build began are read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from aotbuild.build.edited_files import edited_since, is_newer
from aotbuild.build.shares import read_files
from aotbuild.build.sources import SourceTree, TracedFiles
from aotbuild.errors import SourcesEdited
from aotbuild.format.sources import SourceDigests

_NOTE = "{} was edited while it was compiled: build again"


def refuse_edits(
    sources: SourceTree, traced: TracedFiles, files: SourceDigests, started: int
) -> list[str]:
    """Raise SourcesEdited if a file is another one than what was compiled; return notes.

    `files` are those of the index, and `started` is when the build began, in nanoseconds. What the
    user's code writes itself is no edit, and neither is data that is not in the package.
    """
    manifest = {files.manifest} - {None}
    found = {*traced.changed, *edited_since(files, sources.root, started, always=manifest)}
    edited = {name for name in found if not traced.is_written(name)}
    notes = found - edited
    package = sources.below(sources.import_root.joinpath(*sources.package.split(".")))
    for name in _changed_data(sources, traced, files, started):
        is_packaged = package is not None and PurePosixPath(name).is_relative_to(package)
        # A process that the code started may have written it.
        (edited if is_packaged and not traced.processes else notes).add(name)
    if edited:
        raise SourcesEdited(sorted(edited))
    return [_NOTE.format(name) for name in sorted(notes)]


def _changed_data(
    sources: SourceTree, traced: TracedFiles, files: SourceDigests, since: int
) -> Iterator[str]:
    """Yield the files of the project that jobs opened and others changed, but no modules."""
    for path, name in read_files(sources, traced.reads):
        try:
            is_new = is_newer(Path(path), since)
        except OSError:
            continue
        if is_new and name not in files.files and not traced.is_written(name):
            yield name
