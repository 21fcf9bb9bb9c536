"""Functions of an index and their records: what no call could use, or would use wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aotbuild.format.canonical import canonical_json
from aotbuild.format.padding import Padding
from aotbuild.format.record import Record
from aotbuild.format.signature import LIBRARY_NAMES, Function
from aotbuild.format.tree import children_of, leaf_count
from aotbuild.format.wrap import FILTER_JIT, NNX_JIT
from aotbuild.runtime.padding import Shape, sizes_of

# A setting of jax under which functions return 64-bit numbers without its 64-bit mode.


def function_problems(
    functions: Sequence[Function], records: Sequence[Record], *, whole: bool
) -> Iterator[str]:
    """Yield what contradicts itself; `whole` says that no record is missing on purpose."""
    found: dict[str, list[Record]] = {function.name: [] for function in functions}
    for record in records:
        found.get(record.function, []).append(record)
    for function in functions:
        for problem in _own_problems(function):
            yield f"{function.name}: {problem}"
        for record in found[function.name]:
            for problem in (*_call_problems(function, record), *_x64_problems(record)):
                yield f"{record}: {problem}"
        if function.pad:
            for problem in _padding_problems(function.pad, found[function.name], whole=whole):
                yield f"{function.name}: pad: {problem}"


def _own_problems(function: Function) -> Iterator[str]:
    name, arrays = function.name, {*function.dynamic}
    if not name.isidentifier() or name.startswith("_") or name in LIBRARY_NAMES:
        yield "no library has a function of this name"
    if function.wrap not in ("", NNX_JIT, FILTER_JIT):
        yield f"wrap: {function.wrap!r} is not known"
    ordered = tuple(each for each in function.positional if each in arrays)
    if ordered != function.dynamic:
        yield f"dynamic: {[*function.dynamic]} is not the order of positional, {[*ordered]}"


def _call_problems(function: Function, record: Record) -> Iterator[str]:
    """Yield why no call of a function leads to a record."""
    args, kwargs = map(children_of, children_of(record.signature.tree))
    keywords = children_of(record.signature.tree)[1][1]
    given_names = {*function.dynamic[: len(args)], *keywords}
    every = {*function.dynamic, *function.keywords}
    is_known = len(args) <= len(function.dynamic) and given_names <= every
    if not is_known or not (every - given_names).issubset(function.optional):
        have = f"{len(args)} arguments and the keywords {keywords}"
        names = ", ".join((*function.dynamic, *function.keywords))
        yield f"signature.tree: it has {have}, and the function the arrays {names}"
        return
    given = [name for name, _ in record.signature.statics]
    if given != sorted(static.name for static in function.statics):
        yield f"signature.statics: {given} are not the static arguments of the function"
    owners = zip((*function.dynamic[: len(args)], *keywords), (*args, *kwargs), strict=True)
    by_leaf = [name for name, tree in owners for _ in range(leaf_count(tree))]
    donated = {by_leaf[leaf] for leaf in record.calling.donated} - {*function.donate}
    if donated:
        yield f"calling.donated: {', '.join(sorted(donated))} is not donated by the function"


def _x64_problems(record: Record) -> Iterator[str]:
    if record.requires.x64:
        return
    # Results may be: a function can switch it on inside.
    wide = [aval for aval in record.signature.leaves if aval.needs_x64]
    if wide:
        yield f"requires.x64: false, and it takes {wide[0]}"


def _padding_problems(padding: Padding, records: Iterable[Record], *, whole: bool) -> Iterator[str]:
    sized = [(sizes_of(padding, record.signature.leaves), record) for record in records]
    found = {sizes for sizes, _ in sized}
    missing = [bucket for bucket in padding.buckets if bucket not in found]
    if missing and sized and whole:
        yield f"no executable has the sizes {list(missing[0])}"
    fitting = [(sizes, r) for sizes, r in sized if isinstance(sizes, tuple) and r.calling.outputs]
    for sizes, record in fitting:
        yield from _axis_problems(padding, sizes, record)
    firsts: dict[bytes, Record] = {}
    for _, record in fitting:
        first = firsts.setdefault(canonical_json(record.signature.statics), record)
        if (reason := _uncut(padding, first, record)) is not None:
            yield reason
            return


def _axis_problems(padding: Padding, sizes: Shape, record: Record) -> Iterator[str]:
    outputs = record.calling.outputs
    if len(outputs) != len(padding.outputs):
        yield f"outputs: {len(padding.outputs)} of {len(outputs)} results"
        return
    for index, (aval, axes) in enumerate(zip(outputs, padding.outputs, strict=True)):
        for axis, dim in axes:
            if axis >= len(aval.shape) or aval.shape[axis] != sizes[dim]:
                name = padding.dims[dim].name
                yield f"outputs: axis {axis} of result {index}, {aval}, is not {name}"


def _uncut(padding: Padding, one: Record, other: Record) -> str | None:
    """Return which result has an axis that grows with the padded sizes, and is never cut.

    The records have equal static arguments.
    """
    pairs = zip(one.calling.outputs, other.calling.outputs, padding.outputs, strict=False)
    for index, (first, second, axes) in enumerate(pairs):
        cut = {axis for axis, _ in axes}
        for axis, sizes in enumerate(zip(first.shape, second.shape, strict=False)):
            if sizes[0] != sizes[1] and axis not in cut:
                return f"outputs: axis {axis} of result {index} grows, and is not cut"
    return None
