"""Whether an entry of a manifest has an observed call: exactly, or by padding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.manifest import (
    ArgSpec,
    DictSpec,
    Function,
    LeafSpec,
    LikeSpec,
    ListSpec,
    NoneSpec,
    SignatureSpec,
    TupleSpec,
)
from aotbuild.record.call_log import ObservedFunction
from aotbuild.record.entries import Seen, encoded
from aotbuild.record.specs import TODO


def has_options(entry: Function, function: ObservedFunction, seen: Seen) -> bool:
    """Return whether an entry is of the jit and settings that a call was made with."""
    call = seen.call
    if (entry.wrap or "") not in (function.wrap, "") or entry.mesh:
        return False
    # An import may set an option that the manifest need not repeat.
    return all((value or None) == (call.config.get(k) or None) for k, value in entry.config.items())


def covers(entry: Function, function: ObservedFunction, seen: Seen) -> bool:
    """Return whether an entry has a call. What `like:` names is taken to be what was passed."""
    return has_options(entry, function, seen) and any(
        _has(signature, entry.pad, function, seen) for signature in entry.each_signature
    )


def _has(
    signature: SignatureSpec, padded: Iterable[str], function: ObservedFunction, seen: Seen
) -> bool:
    sizes: dict[str, int] = {}
    given = {argument.name: argument.spec for argument in seen.call.arguments}
    by_position = dict(zip(signature.positional.values(), given, strict=False))
    if len(given) != len(signature.positional) + len(signature.kwargs):
        return False
    pairs = [(spec, given[name]) for spec, name in by_position.items()]
    for name, spec in signature.kwargs.items():
        if name not in given:
            return False
        pairs.append((spec, given[name]))
    if not all(_fits(spec, found, sizes) for spec, found in pairs):
        return False
    return _has_statics(signature, function, seen) and _has_sizes(signature, {*padded}, sizes)


def _fits(spec: ArgSpec, found: Any, sizes: dict[str, int]) -> bool:
    """Return whether a spec is what was passed; `sizes` gets those of the dims."""
    match spec:
        case LikeSpec():
            return True
        case NoneSpec():
            return found is None
        case LeafSpec() if isinstance(found, str) and not found.startswith(TODO):
            return _is_aval(spec, Aval.parse(found), sizes)
        case ListSpec(items) if isinstance(found, list):
            return _all_fit(items, found, sizes)
        case TupleSpec(items) if isinstance(found, dict) and [*found] == ["tuple"]:
            return _all_fit(items, found["tuple"], sizes)
        case DictSpec(items) if isinstance(found, dict):
            inner = found["dict"] if [*found] == ["dict"] else found
            named = dict(items)
            names = sorted(named)
            same = names == sorted(inner)
            return same and _all_fit([named[n] for n in names], [inner[n] for n in names], sizes)
    return False


def _all_fit(specs: Iterable[ArgSpec], found: Iterable[Any], sizes: dict[str, int]) -> bool:
    every, inner = [*specs], [*found]
    return len(every) == len(inner) and all(
        _fits(spec, each, sizes) for spec, each in zip(every, inner, strict=True)
    )


def _is_aval(spec: LeafSpec, aval: Aval, sizes: dict[str, int]) -> bool:
    kind = (spec.dtype, spec.weak_type, len(spec.shape))
    return kind == (aval.dtype, aval.weak_type, len(aval.shape)) and all(
        (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) == size
        for dim, size in zip(spec.shape, aval.shape, strict=True)
    )


def _has_statics(signature: SignatureSpec, function: ObservedFunction, seen: Seen) -> bool:
    names = {key: _static_name(key, function) for key in signature.static}
    return {*names.values()} == {*seen.statics} and all(
        encoded(seen.statics[names[key]]) in map(encoded, values)
        for key, values in signature.static.items()
    )


def _static_name(key: str | int, function: ObservedFunction) -> str:
    is_known = isinstance(key, int) and 0 <= key < len(function.positional)
    return function.positional[int(key)] if is_known else str(key)


def _has_sizes(signature: SignatureSpec, padded: set[str], sizes: dict[str, int]) -> bool:
    """Return whether sizes are listed, or padded to larger ones."""
    for row in map(dict, signature.rows):
        pairs = [(name, row[name], sizes[name]) for name in row if name in sizes]
        if all(to >= size if name in padded else to == size for name, to, size in pairs):
            return True
    return False
