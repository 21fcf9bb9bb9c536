"""What to do about a call that fits no signature: a sentence for each cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aotbuild.format.aval import Aval
from aotbuild.format.record import Record
from aotbuild.runtime.binding import Call
from aotbuild.runtime.signatures import dims_of, label_of

_GENERAL = "Call it with what was compiled, or add this call to the manifest and build again."
# The fallback needs jax.
FALLBACK = "AOTBUILD_FALLBACK=jit compiles such calls when they are made."
_WEAK_ARRAY = "Pass a weakly typed array, as jax makes them of Python numbers."
_OTHER_DTYPE = "Or add the dtype to the manifest and build again."
# What makes the weakly typed scalars of a Python number, by dtype.
_NUMBERS = {
    **dict.fromkeys(("float32", "float64"), "float"),
    **dict.fromkeys(("int32", "int64"), "int"),
    **dict.fromkeys(("complex64", "complex128"), "complex"),
}
# Of each kind of typed PRNG key: jax's name, and how many uint32 a key is.
_KEYS = {
    "key<fry>": ("threefry2x32", 2),
    "key<rbg>": ("rbg", 4),
    "key<urbg>": ("unsafe_rbg", 4),
}


@dataclass(frozen=True)
class Cause:
    """One way in which a call differs from what was compiled.

    `kind` is `tree`, `static`, `leaf`, or `combination` where only the combination was not
    compiled. `subject` is a path or the name of a static argument. Of a leaf, `wanted` are the
    avals that were compiled, the nearest first, `is_number` says that it is a Python number, and
    `switch` is `on` or `off` if jax_enable_x64 alone makes the difference.
    `found` is a static value as text. `likewise` is the number of other leaves of this kind.
    """

    kind: str
    subject: str = ""
    have: Aval | None = None
    wanted: Sequence[Aval] = ()
    is_number: bool = False
    found: str = ""
    likewise: int = 0
    switch: str = ""


def remedy(
    call: Call,
    causes: Sequence[Cause],
    arrays: str,
    nearest: Record | None = None,
    room: Record | None = None,
) -> str:
    """Return what to do; `room` is a larger signature to which the call could be padded."""
    found = [
        sentence for cause in causes for sentence in _of_cause(call, cause, arrays, nearest, room)
    ]
    sentences = list(dict.fromkeys(found)) or [_GENERAL]
    return " ".join([*sentences, *([FALLBACK] if arrays == "jax" else [])])


def _of_cause(
    call: Call, cause: Cause, arrays: str, nearest: Record | None, room: Record | None
) -> Iterator[str]:
    name = call.bound.function.name
    if cause.kind == "combination":
        yield "Add this combination to dims: and static: in the manifest, and build again."
        if room is not None and call.bound.function.pad is None:
            yield from _of_sizes(call, nearest, room)
    elif cause.kind == "static":
        option = f"`static: {{{cause.subject}: …}}`"
        yield f"Pass a value that was compiled, or add {cause.found} to {option} and build again."
    elif cause.kind == "tree":
        asked = f"library.signatures({name!r}) shows the trees"
        yield f"Pass what was compiled ({asked}), or add this call to the manifest and build again."
    elif cause.have is not None:
        want = cause.wanted[0]
        if cause.have.dtype != want.dtype:
            yield _of_dtype(cause, want, arrays)
        elif cause.have.weak_type != want.weak_type:
            yield _of_strength(cause, want)
        if not any(_have_one_shape(cause.have, aval) for aval in cause.wanted):
            yield from _of_sizes(call, nearest, room, is_larger=_is_larger(cause))


def _is_larger(cause: Cause) -> bool:
    """Return whether a leaf would fit into one that was compiled."""
    have = cause.have.shape if cause.have else ()
    same = (aval.shape for aval in cause.wanted if len(aval.shape) == len(have))
    return any(all(map(int.__le__, have, shape)) for shape in same)


def _have_one_shape(have: Aval, want: Aval) -> bool:
    """Return whether shapes are the same, those of the data of a typed PRNG key too."""
    (_, has), (_, wants) = (_KEYS.get(aval.dtype, ("", 0)) for aval in (have, want))
    if "uint32" not in (have.dtype, want.dtype):
        return have.shape == want.shape
    return have.shape + (has,) * bool(has) == want.shape + (wants,) * bool(wants)


def _of_dtype(cause: Cause, want: Aval, arrays: str) -> str:
    path, have = cause.subject, cause.have
    if cause.switch:
        return f"Turn jax_enable_x64 {cause.switch}, or build for this dtype, too."
    if have and any(aval.dtype.startswith("key<") for aval in (have, want)):
        return f"{_of_key(cause, have, want, arrays)} {_OTHER_DTYPE}"
    if want.weak_type:
        make = _NUMBERS.get(want.dtype)
        if make is None or want.shape:
            return f"{_WEAK_ARRAY} {_OTHER_DTYPE}"
        if have and have.shape:
            return f"Pass a Python number for {path}. {_OTHER_DTYPE}"
        text = f"{make}({path})"
    elif cause.is_number:
        text = f"{'numpy' if hasattr(np, want.dtype) else 'ml_dtypes'}.{want.dtype}(…)"
    else:
        text = f"{path}.astype({want.dtype!r})"
    words = "Convert them, as" if cause.likewise else "Convert it:"
    return f"{words} {text}. {_OTHER_DTYPE}"


def _of_key(cause: Cause, have: Aval, want: Aval, arrays: str) -> str:
    """Return how typed PRNG keys become their data, and data keys; numpy has no keys."""
    path = cause.subject
    if want.dtype not in _KEYS:
        return f"Convert it: jax.random.key_data({path}), which is uint32."
    name = _KEYS[want.dtype][0]
    option = "" if want.dtype == "key<fry>" else f", impl={name!r}"
    make = f"jax.random.wrap_key_data({path}{option})"
    if have.dtype != "uint32":
        make = f"jax.random.key(…{option})"
    return f"Pass {make}." if arrays == "jax" else f'Load it with arrays="jax", and pass {make}.'


def _of_strength(cause: Cause, want: Aval) -> str:
    rest = f"or write {cause.have} in the manifest and build again."
    if want.weak_type and want.shape:
        return f"{_WEAK_ARRAY} In numpy there is none: give it a dtype where it is made, {rest}"
    if want.weak_type:
        return f"Pass a Python number for {cause.subject}, {rest}"
    path = cause.subject
    text = f"numpy.{want.dtype}(…)" if cause.is_number else f"{path}.astype({path}.dtype)"
    return f"Pass {text} for {path}, {rest}"


def _of_sizes(
    call: Call, nearest: Record | None, room: Record | None, *, is_larger: bool = False
) -> Iterator[str]:
    """Yield how to reach compiled sizes: by padding, by splitting, or by other arrays."""
    record = room or nearest
    named = _dims(call, record) if record else {}
    sizes = ", ".join(f"{dim}={have}" for dim, (have, _) in named.items())
    add = f"or add {sizes or 'the sizes'} to dims: and build again."
    if room is not None and call.bound.function.pad is None:
        goal = ", ".join(f"{dim} to {want}" for dim, (_, want) in named.items())
        option = ", ".join(f"{dim}: …" for dim in named)
        own = f"`pad: {{{option}}}`" if named else "`pad:`"
        goal = goal or f"the call to {label_of(room)}"
        yield f"Pad {goal}, let {own} in the manifest do that, {add}"
    elif named and is_larger:
        yield f"Pad it to a size that was compiled, {add}"
    elif named and any(have > want for have, want in named.values()):
        parts = ", ".join(f"{dim}={want}" for dim, (have, want) in named.items() if have > want)
        yield f"Split it into calls of {parts}, {add}"
    else:
        yield "Pass arrays of the shapes that were compiled, or build for these."


def _dims(call: Call, record: Record) -> dict[str, tuple[int, int]]:
    """Return (size here, size there) of the dims in which a call differs, as far as they are known.

    The index keeps the sizes of dims, not their axes, so equal sizes make it unknown.
    """
    pairs = zip(call.signature.leaves, record.signature.leaves, strict=False)
    apart = {
        pair
        for have, want in pairs
        if len(have.shape) == len(want.shape)
        for pair in zip(have.shape, want.shape, strict=True)
        if pair[0] != pair[1]
    }
    dims = {dim: size for dim, size in dims_of(record).items() if isinstance(size, int)}
    found: dict[str, tuple[int, int]] = {}
    for have, want in sorted(apart):
        names = [dim for dim, size in dims.items() if size == want]
        if len(names) != 1 or names[0] in found:
            return {}
        found[names[0]] = have, want
    return found
