"""What the manifest names under `returns:`: a tree with the static data of results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.frozen import dataclass
from aotbuild.manifest import LikeSpec, bind_values
from aotbuild.spec.record import Returned
from aotbuild.spec.tree import Tree, TreeRefused, children_of, describe, digest
from aotbuild.spec.values import cut, encode
from aotbuild.worker.like import like_structure

_LONGEST = 200


@dataclass(frozen=True)
class Reference:
    """The tree under `returns:`: how a record names it, and its description."""

    returned: Returned
    tree: Tree


def find_reference(job: Job) -> Reference | None:
    """Import the tree under `returns:`, or run its function; None without that option."""
    option = job.function.returns
    if option is None:
        return None
    spec = LikeSpec(option.like, option.dims, option.static)
    named = {name: value for name, value in job.statics if isinstance(name, str)}
    bound = bind_values(spec, job.dims, named)
    assert isinstance(bound, LikeSpec), "it stays what it is"
    role = f"functions.{job.name}.returns"
    try:
        tree = describe(like_structure(bound, role))
    except TreeRefused as err:
        msg = (
            f"{role}: like: {option.like} has a {err.node}, whose static data means nothing in "
            f"another process: {err.reason}\nName a tree without it."
        )
        raise TraceRefused(msg) from err
    values = tuple((name, encode(value)) for name, value in bound.values)
    return Reference(Returned(option.like, values, digest(tree)), tree)


def why_not(reference: Reference, wanted: Tree) -> str:
    """Return why no node of the reference has the type and static data of a node of the result."""
    name, like = wanted[1].replace(":", "."), reference.returned.like
    same_type = [node for node in _nodes(reference.tree) if node[1] == wanted[1]]
    if not same_type:
        return f"returns: like: {like} has no {name}"
    expected, found = _first_difference(same_type[0][2:3], wanted[2:3])
    return (
        f"returns: like: {like} has a {name} with other static data\n"
        f"  there     {_text(expected)}\n  returned  {_text(found)}"
    )


def _nodes(tree: Tree) -> Iterator[Tree]:
    if tree[0] == "node":
        yield tree
    for child in children_of(tree):
        yield from _nodes(child)


def _first_difference(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the innermost parts of two JSON values that differ first."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(one[key], other[key]) for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = list(zip(one, other, strict=True))
    else:
        return one, other
    if "fingerprint" in one:  # its name and digest belong together
        return one, other
    return next((_first_difference(a, b) for a, b in pairs if a != b), (one, other))


def _text(data: Any) -> str:
    return cut(json.dumps(data, ensure_ascii=False), _LONGEST)
