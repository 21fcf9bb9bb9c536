"""Read the files of trees that specs name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from aotbuild.errors import Problem
from aotbuild.format.aval import parse_spec
from aotbuild.format.canonical import canonical_json
from aotbuild.format.files import open_regular
from aotbuild.format.tree_file import MOST_BYTES, DescribedTree, names_in, parse_trees
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.nodes import Problems, dotted
from aotbuild.manifest.specs import ArgSpec, FileSpec, LeafSpec, NoneSpec


class TreeFiles:
    """The files of trees beside a manifest, each read when it is asked for first.

    Those that are `known` are not read.
    """

    def __init__(
        self, problems: Problems, known: Mapping[str, Mapping[str, DescribedTree]]
    ) -> None:
        self._problems = problems
        self._folder = Path(problems.file).parent
        self._trees: dict[str, Mapping[str, DescribedTree] | str] = dict(known)
        self._broken: set[str] = set()
        self._found: dict[tuple[str, str], FileSpec] = {}

    def spec(self, file: str, name: str, report: Callable[[str, str], None]) -> ArgSpec:
        """Return the tree of a name in a file; report which of both is wrong, and why.

        Problems inside the file are those of the manifest, too.
        """
        trees = self._read(file)
        if isinstance(trees, str):
            report("file", trees)
        elif name in trees:
            key = file, name
            self._found[key] = self._found.get(key) or _spec(file, name, trees[name])
            return self._found[key]
        elif file not in self._broken:
            known = f"; known: {', '.join(trees)}" if trees else "; the file has none"
            hint = did_you_mean(name, trees) or known
            report("name", f"no tree {quote(name)} in {quote(file)}{hint}")
        return NoneSpec()

    def _read(self, file: str) -> Mapping[str, DescribedTree] | str:
        if file not in self._trees:
            self._trees[file] = self._parsed(file)
        return self._trees[file]

    def _parsed(self, file: str) -> dict[str, DescribedTree] | str:
        """Return the trees of a file, or why it cannot be read."""
        place = self._folder / file
        try:
            if not _is_below(self._folder, file):
                return f"expected a path below the manifest's folder, found {quote(file)}"
            with open_regular(place) as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                return f"{quote(file)} is larger than {MOST_BYTES >> 20} MiB; use like: instead"
            text = data.decode("utf-8")
        except (OSError, ValueError) as err:
            reason = getattr(err, "strerror", None) or "it is no UTF-8 text"
            return f"{quote(file)} cannot be read, looked for beside the manifest: {reason}"
        trees, found = parse_trees(text)
        if found:
            self._broken.add(file)
            self._problems.extend(
                Problem(str(place), each.line, each.column, dotted(each.steps), each.message)
                for each in found
            )
        return trees


def _is_below(folder: Path, file: str) -> bool:
    parts = PurePosixPath(file)
    if parts.is_absolute() or ".." in parts.parts or "\\" in file:
        return False
    return (folder / file).resolve().is_relative_to(folder.resolve())


def _spec(file: str, name: str, found: DescribedTree) -> FileSpec:
    leaves = tuple(LeafSpec(*parse_spec(leaf)) for leaf in found.leaves)
    tree = canonical_json(found.tree).decode("utf-8")
    return FileSpec(file, name, tree, leaves, names_in(found.tree))
