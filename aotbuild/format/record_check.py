"""Consistency checks within one record, independent of any host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, prod
from typing import Any

from aotbuild.format.record import PYTHON_CALL, Calling, HostCallback, Record
from aotbuild.format.signature import Signature
from aotbuild.format.target import HOST
from aotbuild.format.tree import (
    DEEPEST,
    HEADS,
    LEAF,
    MARKERS,
    REFERENCES,
    Tree,
    children_of,
    is_below,
    leaf_count,
    needs_returned,
)
from aotbuild.format.values import cut, decode, is_plain


def check_record(record: Record) -> None:
    """Raise ValueError for the first contradiction within a record."""
    for check in _CHECKS:
        reason = check(record)
        if reason:
            raise ValueError(reason)


def _check_versions(record: Record) -> str | None:
    # XLA ends the process for the bytes of another version.
    if not record.target.is_portable and record.requires.jaxlib is None:
        return "requires.jaxlib: null, and the executable is that of one jaxlib"
    return None


def _check_target(record: Record) -> str | None:
    # What an executable is checked for depends on its platform: a record names one.
    target, requires = record.target, record.requires
    pairs = [
        ("platforms", target.platforms, requires.platforms),
        ("devices", target.devices, requires.devices),
        ("processes", target.processes, requires.processes),
        ("isa", target.detail if target.platform == HOST else None, requires.isa),
    ]
    wrong = [f"{what} {found}" for what, expected, found in pairs if found != expected]
    return f"is for {target}, but requires {', '.join(wrong)}" if wrong else None


# Entries of the provenance that calls and commands read.
_PROVENANCE = {"label": str, "jax": str, "dims": dict, "config": dict, "compiler_options": dict}


def _check_provenance(record: Record) -> str | None:
    for name, kind in _PROVENANCE.items():
        found = record.provenance.get(name)
        if found is not None and not isinstance(found, kind):
            return (
                f"provenance.{name}: expected {kind.__name__}, found {cut(repr(found), _LONGEST)}"
            )
    return None


def _check_signature(record: Record) -> str | None:
    signature = record.signature
    reason = next(_tree_problems(signature.tree, "signature.tree", inputs=False), None)
    if reason:
        return reason
    if signature.tree == LEAF or signature.tree[0] != "tuple" or len(signature.tree) != 3:
        return "signature: the tree is not (args, kwargs)"
    found = leaf_count(signature.tree)
    if found != len(signature.leaves):
        return f"signature: a tree of {found} leaves has {len(signature.leaves)} avals"
    names = [name for name, _ in signature.statics]
    if not all(isinstance(name, str) for name in names) or names != sorted(set(names)):
        return f"signature: {names} are not names of statics, sorted and unique"
    return None


def _check_outputs(record: Record) -> str | None:
    calling = record.calling
    reason = next(_tree_problems(calling.out_tree, "calling.out_tree", inputs=True), None)
    if reason:
        return reason
    if calling.returned is None and needs_returned(calling.out_tree):
        return "result: the tree refers to one that the record does not name"
    if calling.returned is not None and not needs_returned(calling.out_tree):
        return f"calling.returned: no part of the result is of {calling.returned.like}"
    count = _output_leaves(calling.out_tree, record.signature)
    if count is None:
        return "result: the tree refers to an input that is not there, or has other children"
    # A portable record with symbolic dims has no output avals.
    if calling.outputs and count != len(calling.outputs):
        return f"result: a tree of {count} leaves has {len(calling.outputs)} avals"
    return None


def _check_inputs(record: Record) -> str | None:
    calling, leaves = record.calling, len(record.signature.leaves)
    for name, numbers, limit in (
        ("kept", calling.kept, leaves + len(calling.constants)),
        ("donated", calling.donated, leaves),
    ):
        if len(set(numbers)) != len(numbers) or any(not 0 <= n < limit for n in numbers):
            return f"{name}: {list(numbers)} are not indices of {limit} inputs"
    return None


def _check_golden(record: Record) -> str | None:
    if record.golden is None:
        return None
    given, leaves = [leaf for leaf, _ in record.golden.inputs], len(record.signature.leaves)
    if len(set(given)) != len(given) or any(not 0 <= leaf < leaves for leaf in given):
        return f"golden: {given} are not indices of {leaves} leaves"
    tolerances = (record.golden.rtol, record.golden.atol)
    if any(t is not None and not 0 <= t < inf for t in tolerances):
        return f"golden: {tolerances} are no tolerances"
    return None


def _check_mesh(record: Record) -> str | None:
    calling, devices = record.calling, record.requires.devices
    names = [name for name, _ in calling.mesh]
    if any(size < 1 for _, size in calling.mesh) or len(set(names)) != len(names):
        return f"mesh: {dict(calling.mesh)} is none"
    if prod(size for _, size in calling.mesh) != devices or record.target.devices != devices:
        return f"mesh: {dict(calling.mesh)} does not have {devices} devices"
    unknown = sorted(set(calling.explicit_axes) - set(names))
    if unknown:
        return f"explicit_axes: {', '.join(unknown)} is no axis of the mesh"
    return next(_spec_problems(calling, record.signature), None)


def _spec_problems(calling: Calling, signature: Signature) -> Iterator[str]:
    names = {name for name, _ in calling.mesh}
    groups = (
        ("in_specs", calling.in_specs, [aval.shape for aval in signature.leaves]),
        ("out_specs", calling.out_specs, [aval.shape for aval in calling.outputs]),
    )
    for role, specs, shapes in groups:
        # A portable record with symbolic dims has no output avals.
        if not specs or (role == "out_specs" and not shapes):
            continue
        if not names or len(specs) != len(shapes):
            yield f"{role}: {len(specs)} PartitionSpecs for {len(shapes)} arrays"
            return
        for spec, shape in zip(specs, shapes, strict=True):
            axes = [
                a
                for entry in spec
                if entry
                for a in (entry if isinstance(entry, tuple) else (entry,))
            ]
            if len(spec) > len(shape) or set(axes) - names or len(set(axes)) != len(axes):
                yield f"{role}: {spec} is no PartitionSpec of {shape} over {sorted(names)}"


# Characters of a place in an error.
_LONGEST = 80
# What a description has forms of their own for. jaxlib ends the process for some of them.
_CONTAINERS = ("types:NoneType", *(f"builtins:{name}" for name in ("tuple", "list", "dict")))
_CALLBACK_KINDS = ("pure", "io", "debug", "print")
_TOKENS = ("debug", "io")


def _check_callbacks(record: Record) -> str | None:
    calling = record.calling
    if bool(calling.callbacks) != (PYTHON_CALL in record.requires.custom_calls):
        return f"callbacks: {len(calling.callbacks)}, and custom calls that say otherwise"
    if calling.callbacks and record.requires.platforms != (HOST,):
        return f"callbacks: {record.target} is not for {HOST}"
    if len(set(calling.tokens)) != len(calling.tokens) or set(calling.tokens) - {*_TOKENS}:
        return f"tokens: {list(calling.tokens)} are not among {', '.join(_TOKENS)}"
    return next(filter(None, map(_callback_problem, calling.callbacks)), None)


def _callback_problem(callback: HostCallback) -> str | None:
    if callback.kind not in _CALLBACK_KINDS or _is_name(callback.call) is (
        callback.kind == "print"
    ):
        return f"callbacks: a {callback.kind!r} of {callback.call!r} is none"
    reason = next(_tree_problems(callback.tree, "tree", inputs=False), None)
    if reason:
        return f"callbacks: {callback.call}: {reason}"
    leaves = [leaf for leaf, _ in callback.statics]
    if leaves != sorted({*leaves} & {*range(leaf_count(callback.tree))}):
        return f"callbacks: {callback.call}: {leaves} are not indices of its leaves"
    if not all(is_plain(value) for _, value in callback.statics):
        return f"callbacks: {callback.call}: an argument cannot be decoded"
    return None


def _check_templates(record: Record) -> str | None:
    templates = record.calling.templates
    references = [*_references(record.signature.tree)]
    for path, like in references:
        found = [each.like for each in templates if is_below(path, each.root)]
        if found != [like]:
            return f"templates: {list(path)} is compared with {like}, not with one of {found}"
    for each in templates:
        is_used = any(is_below(path, each.root) for path, _ in references)
        is_callable = all(is_plain(value) for _, value in each.values)
        if not (is_used and is_callable and _is_name(each.like)):
            return f"templates: {each.like!r} is none"
    return None


def _references(tree: Tree, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the path of the node and `module:attr` of the template of each reference in a tree."""
    if tree[0] == "node":
        for item in _data_items(tree[2]):
            if isinstance(item, dict) and isinstance(item.get("reference"), str):
                yield path, item["reference"]
    for index, child in enumerate(children_of(tree)):
        if child != LEAF:
            yield from _references(child, (*path, index))


def _data_items(data: Any) -> list[Any]:
    """Return the identities of the items of a node's static data, or that of all of it."""
    if not isinstance(data, dict):
        return []
    ordered = data.get("ordered")
    if isinstance(ordered, list) and ordered:
        return _data_items(ordered[-1])
    found = data.get("tuple")
    return found if isinstance(found, list) else [data]


def _is_name(reference: str) -> bool:
    """Return whether a text is `module:qualname`."""
    module, colon, name = reference.partition(":")
    parts = [*module.split("."), *name.split(".")] if colon else []
    return bool(parts) and all(part.isidentifier() for part in parts)


def _tree_problems(tree: Tree, at: str, *, inputs: bool, depth: int = 0) -> Iterator[str]:
    """Yield why JSON is not a tree, and where: `at` is its place in the record.

    `inputs` allows references to the inputs. A tree with references is made from its description,
    so its types need names.
    """
    if tree == LEAF:
        return
    at = cut(at, _LONGEST)
    if not isinstance(tree, list) or not tree or not isinstance(tree[0], str):
        yield f"{at}: {tree!r} is no tree"
    elif depth > DEEPEST:
        yield f"{at}: a tree deeper than {DEEPEST}"
    elif tree[0] not in HEADS or len(tree) < HEADS[tree[0]]:
        yield f"{at}: {tree[0]!r} is no kind of node"
    elif tree[0] in REFERENCES and not inputs:
        yield f"{at}: {tree[0]!r} is a reference, which only results have"
    else:
        is_reference = tree[0] in REFERENCES
        found = _reference_problems(tree) if is_reference else _node_problems(tree, named=inputs)
        yield from (f"{at}: {problem}" for problem in found)
        for index, child in enumerate(children_of(tree), HEADS[tree[0]]):
            yield from _tree_problems(child, f"{at}[{index}]", inputs=inputs, depth=depth + 1)


def _reference_problems(tree: Tree) -> Iterator[str]:
    path = tree[1]
    if not isinstance(path, list) or any(type(step) is not int or step < 0 for step in path):
        yield f"{tree!r} does not lead to a node"
    if tree[0] == "input" and len(tree) != 2:
        yield f"{tree!r} has children of its own"


def _node_problems(tree: Tree, *, named: bool) -> Iterator[str]:
    if tree[0] in ("none", *MARKERS) and len(tree) != HEADS[tree[0]]:
        yield f"a {tree[0]} has children"
    if tree[0] in ("namedtuple", "node") and not _is_type(tree[1], named=named):
        yield f"{tree[1]!r} is no name of a type"
    if tree[0] == "node" and tree[1] in _CONTAINERS:
        yield f"{tree[1]!r} is a container, which is no node"
    if tree[0] == "dict":
        yield from _key_problems(tree)


def _key_problems(tree: Tree) -> Iterator[str]:
    if not isinstance(tree[1], list):
        yield f"a dict has the keys {tree[1]!r}"
        return
    keys = tree[1]
    plain = [decode(key) for key in keys if is_plain(key)]
    if len(keys) != len(tree) - 2 or len({repr(key) for key in keys}) != len(keys):
        yield f"a dict of {len(tree) - 2} children has the keys {keys!r}"
    elif len(plain) == len(keys) and len(set(map(_hashable, plain))) != len(plain):
        yield f"a dict has equal keys: {keys!r}"
    elif len(plain) == len(keys) and not _are_sorted(plain):
        yield f"a dict has keys that jax did not sort: {keys!r}"


def _are_sorted(keys: list[Any]) -> bool:
    """Return whether keys are such as a dict of jax has, in its order."""
    try:
        hash(tuple(keys))
        return sorted(keys) == keys
    except TypeError:
        return False


def _is_type(data: object, *, named: bool) -> bool:
    """Return whether this is a type in a description: `named`, or a fingerprint."""
    if isinstance(data, str):
        return _is_name(data) if named else True
    body = data.get("fingerprint") if isinstance(data, dict) and not named else None
    is_pair = isinstance(body, list) and len(body) == 2
    return is_pair and all(isinstance(text, str) for text in body or ())


def _hashable(key: object) -> object:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


def _output_leaves(tree: Tree, signature: Signature) -> int | None:
    """Return the number of leaves of an output tree; None if a reference is invalid."""
    if tree == LEAF:
        return 1
    if tree[0] in ("input", "like_input"):
        found = signature.tree
        for step in tree[1]:
            children = children_of(found)
            if step >= len(children):
                return None
            found = children[step]
        if tree[0] == "input":
            return leaf_count(found)
        counted = found != LEAF and found[0] in ("none", "dict", "namedtuple")
        if found == LEAF or (counted and len(children_of(found)) != len(children_of(tree))):
            return None
    counts = [_output_leaves(child, signature) for child in children_of(tree)]
    return None if None in counts else sum(count for count in counts if count is not None)


_CHECKS: tuple[Callable[[Record], str | None], ...] = (
    _check_versions,
    _check_target,
    _check_provenance,
    _check_signature,
    _check_outputs,
    _check_inputs,
    _check_golden,
    _check_mesh,
    _check_callbacks,
    _check_templates,
)
