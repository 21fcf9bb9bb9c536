"""Results in the child process: the tree of each is made as a call makes it.

That imports the types which the tree names. Only where the package is installed are they those of
the build: elsewhere, nothing follows from a type that is missing or refuses its parts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.errors import InvalidIndex
from aotbuild.format.imports import ARRAYS
from aotbuild.format.record import Record
from aotbuild.format.tree import LEAF, Tree, children_of, types_in
from aotbuild.format.values import cut
from aotbuild.runtime.source import Source, open_index
from aotbuild.runtime.trees import restore, restore_outputs, with_static_values

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Trees

_LONGEST = 600


def result_problem(
    source: Source, record: Record, trees: Trees, outputs: Callable[[], Sequence[Any]]
) -> tuple[str | None, str | None]:
    """Return why the result of a record cannot be made, or why that was not tried; None and None.

    `outputs` makes arrays as the executable returns them.
    """
    calling = record.calling
    if calling.out_tree == LEAF:
        return None, None
    if calling.returned is not None:  # a function, whose code `verify` does not run
        return None, f"its result was not made, which calls {calling.returned.like}"
    inputs = None
    if _refers(calling.out_tree):
        try:
            inputs = restore(record.signature.tree, None, trees)
        except Exception as err:  # noqa: BLE001 - types of nodes run code of their own
            return None, f"its result was not made: it has parts of its arguments: {_text(err)}"
    try:
        treedef = restore_outputs(record, inputs, trees)
        if calling.outputs or not treedef.num_leaves:
            with_static_values(treedef, trees.make_treedef).unflatten(outputs())
    except InvalidIndex as err:
        return str(err), None
    except (Exception, SystemExit) as err:  # noqa: BLE001 - as above
        if (where := _elsewhere(source, record)) is not None:
            return None, f"its result was not made, which needs {where}: {_text(err)}"
        return f"its result cannot be made: {_text(err)}", None
    return None, None


def _refers(tree: Tree) -> bool:
    return tree[0] in ("input", "like_input") or any(map(_refers, children_of(tree)))


def _elsewhere(source: Source, record: Record) -> str | None:
    """Return the package of the result's types that need not be those of the build here."""
    names = {name for _, name in types_in(record.calling.out_tree)}
    tops = {name.partition(":")[0].partition(".")[0] for name in names}
    is_installed = _is_installed(source)
    for top in sorted(tops - {*ARRAYS, *sys.stdlib_module_names}):
        if not is_installed or find_spec(top) is None:
            return top
    return None


def _is_installed(source: Source) -> bool:
    """Return whether importing the package finds the one that a place is in."""
    package = str(open_index(source).header.get("package"))
    spec = find_spec(package.partition(".")[0])
    locations = spec.submodule_search_locations if spec else None
    return any(
        Path(source.place).resolve().is_relative_to(Path(each).resolve())
        for each in locations or ()
    )


def _text(error: BaseException) -> str:
    return cut(f"{type(error).__name__}: {error}", _LONGEST)
