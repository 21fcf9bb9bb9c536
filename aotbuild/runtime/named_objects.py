"""What a package names as `module:attr`: objects to import, and trees to compare with.

The first are sources and types of results. The static data of arguments is compared with that of
the trees (`like:`, `format.references`). Nothing is traced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.format.canonical import canonical_json
from aotbuild.format.record import Record, Template
from aotbuild.format.tree import Referenced, is_below
from aotbuild.format.values import decode, import_object

if TYPE_CHECKING:
    from aotbuild.runtime.trees import Trees

# By whether they have jax's nodes, and how a record names them: a function is called once for each.
_TREES: dict[tuple[bool, bytes], Any] = {}


def import_named(name: str) -> Any:
    """Return the object `module:qualname`; raises whatever importing its module raises."""
    with outside_traces():
        return import_object(name)


def outside_traces() -> AbstractContextManager[None]:
    """Return a context for running code of the user's that is run once for the whole process.

    The first call may be inside a JAX transformation of the caller. Arrays that the code makes must
    not become tracers of that transformation, which globals would keep.
    """
    # Without jax there is no transformation; it may also be half imported in another thread.
    context: Any = getattr(sys.modules.get("jax"), "ensure_compile_time_eval", nullcontext)
    made: AbstractContextManager[None] = context()
    return made


def differences(
    treedef: Any, compared: Iterable[Referenced], record: Record, trees: Trees
) -> list[str]:
    """Return a line for each item of a call's static data that differs from that of a template.

    The record has the call's signature. AotbuildError if a template has other nodes than the build
    found there.
    """
    from aotbuild.format.references import NotThere, difference  # few functions have `like:`

    lines = []
    for place, path, index, like in compared:
        template = next(t for t in record.calling.templates if is_below(path, t.root))
        try:
            other, at = _tree(template, trees), path[len(template.root) :]
            reason = difference(treedef, path, index, other, at)
        except NotThere as err:
            raise _other_tree(template, str(err)) from err
        except Exception as err:  # the user's function may raise anything
            raise _other_tree(template, f"{type(err).__name__}: {err}") from err
        if reason:
            lines.append(f"{place}: compared with that of {like}: {reason}")
    return lines


def _tree(named: Template, trees: Trees) -> Any:
    """Return the treedef; raises whatever importing and calling the user's code raises."""
    said = canonical_json([named.like, [list(item) for item in named.values]])
    key = (trees.nodes is None, said)
    if key not in _TREES:
        found = import_named(named.like)
        found = getattr(found, "__aotbuild_source__", found)
        treedef = trees.flatten(found)[1]
        if callable(found) and (isinstance(found, type) or treedef.node_data() is None):
            arguments = {name: decode(value) for name, value in named.values}
            with outside_traces():
                treedef = trees.flatten(found(**arguments))[1]
        _TREES[key] = treedef
    return _TREES[key]


def _other_tree(named: Template, found: str) -> AotbuildError:
    return AotbuildError(
        f"{named.like}, which the manifest names under like:, has static data that arguments are "
        "compared with\n"
        f"  expected the tree that it was when the package was built\n  found    {found}\n"
        "Install the package that defines it, in the version of the build, or build again."
    )
