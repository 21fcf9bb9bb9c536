"""What the manifest names under `returns:`: a tree with the static data of results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.canonical import canonical_json
from aotbuild.format.facts import Facts, differing
from aotbuild.format.record import Returned
from aotbuild.format.tree import (
    HEADS,
    Describer,
    Tree,
    TreeRefused,
    children_of,
    digest,
    type_words,
)
from aotbuild.format.values import cut, encode
from aotbuild.manifest import LikeSpec, bind_values
from aotbuild.worker.like import like_structure

# Parts of the identities of a node there and of one that is returned; and the path, there and
# returned of what differs in their digests.
_Difference: TypeAlias = tuple[Any, Any, list[tuple[str, str, str]]]

_LONGEST = 200
_NODES = ("node", "namedtuple")
_SHOWN = 3


@dataclass(frozen=True)
class Reference:
    """The tree under `returns:`: how a record names it, its description, and facts about that.

    `notes` are for the user, if a result needs it.
    """

    returned: Returned
    tree: Tree
    facts: tuple[Facts, ...]
    notes: tuple[str, ...] = ()


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
    describer = Describer()
    try:
        structure, is_computed = like_structure(bound, role)
        tree = describer.describe(structure)
    except TreeRefused as err:
        msg = (
            f"{role}: like: {option.like} has a {err.node}, whose static data means nothing in "
            f"another process: {err.reason}\nName a tree without it."
        )
        raise TraceRefused(msg) from err
    values = tuple((name, encode(value)) for name, value in bound.values)
    returned = Returned(option.like, values, digest(tree))
    note = (
        f"{role}: like: {option.like} holds arrays that jax computes, which may compile at the "
        "first call in a process; make them with numpy"
    )
    return Reference(returned, tree, describer.facts(), (note,) if is_computed else ())


def why_not(reference: Reference, wanted: Tree, facts: Iterable[Facts]) -> str:
    """Return why no node of the reference has the type and static data of a node of the result.

    `facts` are those about the result.
    """
    like = f"returns: like: {reference.returned.like}"
    if wanted[0] not in _NODES:
        return f"{like} gives the static data of nodes only"
    name = type_words(wanted[1])
    same_type = [_head(node) for node in _nodes(reference.tree) if type_words(node[1]) == name]
    if not same_type:
        return f"{like} has no {name}"
    known = {each.digest: each for each in (*reference.facts, *facts)}
    ways = [list(_differences(head, _head(wanted), known)) for head in same_type]
    # Where nothing is known about a difference, the two are no more alike than with all of it.
    nearest = min(ways, key=lambda found: sum(len(parts) or _SHOWN + 1 for *_, parts in found))
    there, returned, parts = nearest[0]
    return (
        f"{like} has a {name} with other static data\n"
        f"  there     {_text(there, [(part, text) for part, text, _ in parts])}\n"
        f"  returned  {_text(returned, [(part, text) for part, _, text in parts])}"
    )


def _head(tree: Tree) -> list[Any]:
    """Return the type and the static data of a node."""
    return list(tree[1 : HEADS[tree[0]]])


def _nodes(tree: Tree) -> Iterator[Tree]:
    if tree[0] in _NODES:
        yield tree
    for child in children_of(tree):
        yield from _nodes(child)


def _differences(one: Any, other: Any, known: Mapping[str, Facts]) -> Iterator[_Difference]:
    """Yield the innermost parts of two identities that differ, and what differs in digests."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(one[key], other[key]) for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = list(zip(one, other, strict=True))
    else:
        yield one, other, []
        return
    if "fingerprint" in one:  # its name and digest belong together
        mine, theirs = (known.get(each["fingerprint"][1]) for each in (one, other))
        yield one, other, differing(mine, theirs)[:_SHOWN] if mine and theirs else []
        return
    for a, b in pairs:
        if canonical_json(a) != canonical_json(b):
            yield from _differences(a, b, known)


def _text(data: Any, parts: list[tuple[str, str]]) -> str:
    if isinstance(data, dict) and "fingerprint" in data:
        listed = ", ".join(f"{part} {text}".strip() for part, text in parts)
        return f"{data['fingerprint'][0]}: {listed}".removesuffix(": ")
    return cut(json.dumps(data, ensure_ascii=False), _LONGEST)
