"""Trees that the manifest names, imported or made by a call where a first call needs them.

The static data of arguments is compared with theirs (`like:`, `format.references`). Nothing is
traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.format.canonical import canonical_json
from aotbuild.format.record import Record, Template
from aotbuild.format.references import NotThere, difference
from aotbuild.format.tree import is_below
from aotbuild.format.values import decode
from aotbuild.runtime.binding import Call
from aotbuild.runtime.imports import import_named, outside_traces

if TYPE_CHECKING:
    from aotbuild.runtime.trees import Trees

_LONGEST = 500
# By how a record names them: each function is called once.
_TREES: dict[tuple[bool, bytes], Any] = {}


def differences(call: Call, record: Record, trees: Trees) -> list[str]:
    """Return a line for each item of a call's static data that differs from that of a template.

    The record has the call's signature. AotbuildError if a template has other nodes than the build
    found there.
    """
    return [*_differences(call, record, trees)]


def _differences(call: Call, record: Record, trees: Trees) -> Iterator[str]:
    for place, path, index, like in call.compared:
        template = next(t for t in record.calling.templates if is_below(path, t.root))
        try:
            treedef, at = _tree(template, trees), path[len(template.root) :]
            reason = difference(call.treedef, path, index, treedef, at)
        except NotThere as err:
            raise _other_tree(template, str(err)) from err
        except Exception as err:  # the user's function may raise anything
            raise _other_tree(template, f"{type(err).__name__}: {err}") from err
        if reason:
            yield f"{place}: compared with that of {like}: {reason}"


def _key(named: Template, trees: Trees) -> tuple[bool, bytes]:
    return trees.nodes is None, canonical_json([named.like, [list(item) for item in named.values]])


def _tree(named: Template, trees: Trees) -> Any:
    """Return the treedef; raises whatever importing and calling the user's code raises."""
    key = _key(named, trees)
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
