"""Static data in argument trees: what identifies it, and what the manifest says not to compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.record import Template
from aotbuild.format.references import NotThere, difference
from aotbuild.format.tree import (
    Describer,
    Ignored,
    Referenced,
    Tree,
    TreeRefused,
    field_labels,
    is_below,
)
from aotbuild.format.values import encode
from aotbuild.format.words import did_you_mean
from aotbuild.manifest import ArgSpec, DictSpec, LikeSpec, ListSpec, TupleSpec
from aotbuild.worker.leaves import key_path, named_path
from aotbuild.worker.specs import structure_anew

_SHOWN = 12


@dataclass(frozen=True)
class Described:
    """The description of `(args, kwargs)`, and what the function and the record keep about it."""

    tree: Tree
    ignored: tuple[Ignored, ...]
    references: tuple[Referenced, ...] = ()
    templates: tuple[Template, ...] = ()


def describe_arguments(job: Job, tree: Any, names: tuple[str, ...]) -> Described:
    """Return the description of `(args, kwargs)`, before the function is traced.

    `names` are the arguments' names, in order.
    """
    ignored, structure = ignored_fields(job, tree, names), jax.tree.structure(tree)
    describer, templates = Describer(ignored), tuple[Template, ...]()
    try:
        described = describer.describe(structure)
    except TreeRefused as err:
        # Most trees do without: reading all places takes long.
        describer = Describer(ignored, _referable(job, tree, names))
        try:
            described = describer.describe(structure)
            templates = _templates(job, structure, describer.compared)
        except TreeRefused as other:
            raise TraceRefused(_cannot_compare(job, tree, names, other)) from err
        except _Unequal as unequal:
            raise TraceRefused(_cannot_compare(job, tree, names, err, str(unequal))) from err
    references = tuple(sorted(describer.compared))
    return Described(described, ignored, references, templates)


def _cannot_compare(
    job: Job, tree: Any, names: tuple[str, ...], error: TreeRefused, unequal: str = ""
) -> str:
    name, *below = named_path(key_path(tree, error.path), names)
    return (
        f"{job.call}: argument {name}{jax.tree_util.keystr(tuple(below))} is a {error.node}, whose "
        f"static data cannot be compared in another process: {error.reason}\n{unequal}"
        "Pass the arrays only (equinox: eqx.filter or partition; flax: the state) and close over "
        "the rest, or leave a field that changes no result out of the comparison: "
        "static_data: {place: ignore}."
    )


# --- references ---------------------------------------------------------------------------------


def _referable(job: Job, tree: Any, names: tuple[str, ...]) -> Iterator[Referenced]:
    """Yield the static data of all trees under `like:`, with what these name."""
    likes = _likes(job)
    for place, path, index in _fields(tree, names) if likes else ():
        for root, spec in likes.items():
            if is_below(path, root):
                yield place, path, index, spec.ref


def _likes(job: Job) -> dict[tuple[int, ...], LikeSpec]:
    """Return the specs under `like:` by their places in `(args, kwargs)`."""
    sized = job.at()
    groups = [*sized.args.values()], [spec for _, spec in sorted(sized.kwargs.items())]
    return {
        path: like
        for group, specs in enumerate(groups)
        for index, spec in enumerate(specs)
        for path, like in _likes_in(spec, (group, index))
    }


def _likes_in(spec: ArgSpec, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], LikeSpec]]:
    match spec:
        case LikeSpec():
            yield path, spec
        case ListSpec(items) | TupleSpec(items):
            for index, item in enumerate(items):
                yield from _likes_in(item, (*path, index))
        case DictSpec(items):
            # In the order of jax.
            for index, key in enumerate(sorted(dict(items))):
                yield from _likes_in(dict(items)[key], (*path, index))


class _Unequal(Exception):
    """Static data is not equal to what it is when its template is made again."""


def _templates(job: Job, structure: Any, references: list[Referenced]) -> tuple[Template, ...]:
    """Return the templates of references; `_Unequal` if all calls would be refused."""
    found = []
    for root, spec in _likes(job).items():
        below = [each for each in references if is_below(each[1], root)]
        if below:
            _check_equal(job, structure, root, spec, below)
            values = tuple((name, encode(value)) for name, value in spec.values)
            found.append(Template(spec.ref, values, root))
    return tuple(found)


def _check_equal(
    job: Job, structure: Any, root: tuple[int, ...], spec: LikeSpec, below: list[Referenced]
) -> None:
    template = structure_anew(spec, f"functions.{job.name}")
    for place, path, index, like in below:
        try:
            reason = difference(structure, path, index, template, path[len(root) :])
        except NotThere as err:
            reason = str(err)
        if reason:
            msg = (
                f"Nor can calls compare {place} with that of {like}, which is another each time it "
                f"is made: {reason}\nMake the object once, in a module, or give its type __eq__. "
            )
            raise _Unequal(msg)


# --- what is not compared -----------------------------------------------------------------------


def ignored_fields(job: Job, tree: Any, names: tuple[str, ...]) -> tuple[Ignored, ...]:
    """Return the places that `static_data:` names; TraceRefused if one leads nowhere.

    `tree` is `(args, kwargs)`, and `names` are the arguments' names, in order.
    """
    if not job.function.static_data:
        return ()
    found = {place: (path, index) for place, path, index in _fields(tree, names)}
    for place in job.function.static_data:
        if place.replace('"', "'") not in found:
            raise TraceRefused(_unknown(job, place, list(found)))
    places = sorted(place.replace('"', "'") for place in job.function.static_data)
    return tuple((place, *found[place]) for place in places)


def _fields(tree: Any, names: tuple[str, ...]) -> Iterator[Ignored]:
    args, kwargs = tree
    arguments = (*enumerate(args), *enumerate(kwargs.values()))
    for number, (name, (index, value)) in enumerate(zip(names, arguments, strict=True)):
        group = 0 if number < len(args) else 1
        yield from _below(value, name, (group, index))


def _below(tree: Any, place: str, path: tuple[int, ...]) -> Iterator[Ignored]:
    """Yield the static data of a tree's nodes: their fields, and all of it where there are none."""
    treedef = jax.tree.structure(tree)
    data = treedef.node_data()
    if data is None:
        return
    kind, aux = data
    is_plain = hasattr(kind, "_fields") and aux is None
    if kind not in (tuple, list, dict, type(None)) and not is_plain:
        labels = field_labels(kind, len(aux)) if type(aux) is tuple else []
        yield from ((f"{place}{label}", path, index) for index, label in enumerate(labels))
        if type(aux) is not tuple:
            yield f"{place}<static>", path, None
    children = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)[0]
    for index, (entries, child) in enumerate(children):
        yield from _below(child, f"{place}{jax.tree_util.keystr(entries)}", (*path, index))


def _unknown(job: Job, place: str, known: list[str]) -> str:
    where = f"functions.{job.name}.static_data: {place}"
    if not known:
        return f"{where}: no argument of {job.call} has static data in its tree; leave it out"
    more = f", and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    hint = did_you_mean(place, known)
    listed = f"{', '.join(known[:_SHOWN])}{more}"
    return f"{where}: no such static data{hint}\nThe arguments of {job.call} have: {listed}"
