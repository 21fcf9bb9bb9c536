"""The sources that executables were compiled from: their digests, in the header of the index.

::

    "sources": {"files": {"aot.yaml": <SHA-256>, "src/mypkg/model.py": <SHA-256>},
                "import_root": "src", "manifest": "aot.yaml", "content": <SHA-256>}

The files are the manifest and every module below the project's folder that was imported to trace a
function. Paths are relative to that folder, with slashes. `import_root` is the folder that the
modules are imported from, `.` for the project's own. `content` is the digest of what the manifest
says with all the files that it names, as those of trees and GPUs. The header has this key only if a
build knew of such files, and if their list is not too long for a header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePosixPath
from typing import Any

from aotbuild.format.canonical import canonical_json
from aotbuild.format.files import open_regular
from aotbuild.format.index import SOURCES
from aotbuild.format.values import cut

HERE = "."
# Bytes of the list in the header, at most: a reader takes no header of more than 1 MiB.
_MOST_BYTES = 1 << 18
_CHUNK = 1 << 20
_HEX = frozenset("0123456789abcdef")
_LONGEST = 200


@dataclass(frozen=True)
class SourceDigests:
    """The digests of source files by their paths, and which of them is the manifest.

    `content` is the digest of what the manifest says, with the files that it names.
    """

    files: Mapping[str, str]
    import_root: str = HERE
    manifest: str | None = None
    content: str | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """The files that are imported."""
        return tuple(name for name in self.files if name != self.manifest)

    def to_header(self) -> dict[str, Any]:
        """Return what the header has of it: nothing if there are no files, or far too many."""
        found = {"files": dict(self.files), "import_root": self.import_root}
        found |= {"manifest": self.manifest} if self.manifest else {}
        found |= {"content": self.content} if self.content else {}
        is_short = len(canonical_json(found)) <= _MOST_BYTES
        return {SOURCES: found} if self.files and is_short else {}

    def changed(self, root: Path) -> tuple[str, ...]:
        """Return the files below the project's folder `root` that have changed, sorted.

        A module that is missing counts; a manifest does not, because it may be kept elsewhere.
        """
        changed = []
        for name, digest in sorted(self.files.items()):
            found = _digest(root / name)
            is_other = found != digest and (found or name != self.manifest)
            if is_other or self.imported_instead(root, name):
                changed.append(name)
        return tuple(changed)

    def imported_instead(self, root: Path, name: str) -> str | None:
        """Return the file that Python imports now in the place of a module, below `root`.

        Of one name, a package comes before an extension module, and that before a source file.
        """
        path = root / name
        if path.suffix != ".py":
            return None
        others = [] if path.stem == "__init__" else [path.with_suffix("") / "__init__.py"]
        others += [path.with_name(f"{path.stem}{suffix}") for suffix in EXTENSION_SUFFIXES]
        found = (other.relative_to(root).as_posix() for other in others if other.is_file())
        return next((other for other in found if other not in self.files), None)


def _digest(path: Path) -> str | None:
    """Return the digest of a file; None if it is missing."""
    try:
        return file_digest(path) if path.is_file() else None
    except OSError:
        return None


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; raises OSError."""
    found = sha256()
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def read_sources(header: Mapping[str, Any]) -> SourceDigests | None:
    """Return the sources that a header names, None if it names none; ValueError if malformed."""
    found = header.get(SOURCES)
    if found is None:
        return None
    if not isinstance(found, dict) or not _is_well_formed(found):
        msg = f"header: {SOURCES}: expected digests of files, found {cut(repr(found), _LONGEST)}"
        raise ValueError(msg)
    return SourceDigests(
        found["files"], found["import_root"], found.get("manifest"), found.get("content")
    )


def join_sources(headers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the header of a merged package has: the files of all, but those that differ.

    Nothing if one of the headers has nothing, or another folder to import from.
    """
    found = [read_sources(header) for header in headers]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found) or len({each.import_root for each in known}) > 1:
        return {}
    everything = {pair for each in known for pair in each.files.items()}
    counts = [name for name, _ in everything]
    files = {name: digest for name, digest in everything if counts.count(name) == 1}
    manifest = known[0].manifest
    same = manifest if manifest in files else None
    contents = {each.content for each in known}
    content = contents.pop() if len(contents) == 1 else None
    found_files = dict(sorted(files.items()))
    return SourceDigests(found_files, known[0].import_root, same, content).to_header()


def _is_well_formed(found: Mapping[str, Any]) -> bool:
    files, root, manifest = found.get("files"), found.get("import_root"), found.get("manifest")
    if not isinstance(files, dict) or not isinstance(root, str):
        return False
    digests = [*files.values(), *([found["content"]] if "content" in found else [])]
    return (
        (manifest is None or (isinstance(manifest, str) and manifest in files))
        and all(map(_is_below, [root, *files]))
        and all(isinstance(d, str) and len(d) == 64 and _HEX.issuperset(d) for d in digests)
    )


def _is_below(name: str) -> bool:
    """Return whether a path stays in the folder that it is relative to, on every system."""
    path = PurePosixPath(name)
    return (
        name == str(path)
        and not path.is_absolute()
        and ".." not in path.parts
        and name[1:2] != ":"
        and not any(char in name for char in "\\\0")
    )
