"""Trees of recorded arguments, written into a file beside the manifest that names them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aotbuild.errors import ManifestError, Problem
from aotbuild.format.aval import Aval
from aotbuild.format.files import read_regular_text, write_whole
from aotbuild.format.tree_file import DescribedTree, parse_trees, render_trees
from aotbuild.record.recording import RecordedArgument

# Beside `aot.yaml`.
TREES_FILE = "aot.trees.json"


def tree_entry(
    argument: RecordedArgument, dims: Mapping[tuple[int, int], str] | None = None
) -> DescribedTree:
    """Return what a file says of an argument, which has a tree.

    `dims` has the names of dims, by the index of a leaf and that of an axis of it.
    """
    leaves = (_leaf(index, aval, dims or {}) for index, aval in enumerate(argument.leaves))
    return DescribedTree(argument.tree, tuple(leaves))


def read_trees(file: Path) -> dict[str, DescribedTree]:
    """Return the trees of a file by name, none if there is no file.

    Raises:
        ManifestError: with every problem of the file.
        OSError: if it cannot be read.
    """
    try:
        text = read_regular_text(file)
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as err:
        raise ManifestError([Problem(str(file), 1, 1, "", "it is no UTF-8 text")]) from err
    trees, found = parse_trees(text)
    problems = [
        Problem(str(file), each.line, each.column, ".".join(map(str, each.steps)), each.message)
        for each in found
    ]
    if problems:
        raise ManifestError(problems)
    return trees


def add_trees(file: Path, trees: Mapping[str, DescribedTree]) -> bool:
    """Write trees into a file, each in the place of one of its name; return whether it changed.

    The other trees stay as they are. The file is written whole or not at all, and not if all is
    there already. Raises what `read_trees` raises, and OSError.
    """
    known = read_trees(file)
    wanted = {**known, **trees}
    if wanted == known:
        return False
    write_whole(file, render_trees(wanted))
    return True


def _leaf(index: int, aval: Aval, dims: Mapping[tuple[int, int], str]) -> str:
    """Return an aval with the names of its dims."""
    names = [dims.get((index, axis), str(size)) for axis, size in enumerate(aval.shape)]
    return f"{str(aval).partition('[')[0]}[{','.join(names)}]"
