"""What to do about a call that fits no signature: a sentence for each cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aotbuild.frozen import dataclass
from aotbuild.runtime.binding import Call
from aotbuild.runtime.signatures import dims_of, label_of
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Record

_GENERAL = "Call it with what was compiled, or add this call to the manifest and build again."
# The fallback needs jax.
FALLBACK = "AOTBUILD_FALLBACK=jit compiles such calls when they are made."


@dataclass(frozen=True)
class Cause:
    """One way in which a call differs from what was compiled.

    `kind` is `tree`, `static`, `leaf`, or `combination` where only the combination was not
    compiled. `subject` is a path or the name of a static argument. Of a leaf, `wanted` are the
    avals that were compiled, the nearest first, and `is_number` says that it is a Python number.
    `found` is a static value as text. `likewise` is the number of other leaves of this kind.
    """

    kind: str
    subject: str = ""
    have: Aval | None = None
    wanted: Sequence[Aval] = ()
    is_number: bool = False
    found: str = ""
    likewise: int = 0


def remedy(
    call: Call,
    causes: Sequence[Cause],
    arrays: str,
    nearest: Record | None = None,
    room: Record | None = None,
) -> str:
    """Return what to do; `room` is a larger signature to which the call could be padded."""
    found = [sentence for cause in causes for sentence in _of_cause(call, cause, nearest, room)]
    sentences = list(dict.fromkeys(found)) or [_GENERAL]
    return " ".join([*sentences, *([FALLBACK] if arrays == "jax" else [])])


def _of_cause(
    call: Call, cause: Cause, nearest: Record | None, room: Record | None
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
            yield _of_dtype(cause, want)
        elif cause.have.weak_type != want.weak_type:
            yield _of_strength(cause, want)
        if not any(aval.shape == cause.have.shape for aval in cause.wanted):
            yield from _of_sizes(call, nearest, room, is_larger=_is_larger(cause))


def _is_larger(cause: Cause) -> bool:
    """Return whether a leaf would fit into one that was compiled."""
    have = cause.have.shape if cause.have else ()
    same = (aval.shape for aval in cause.wanted if len(aval.shape) == len(have))
    return any(all(map(int.__le__, have, shape)) for shape in same)


def _of_dtype(cause: Cause, want: Aval) -> str:
    path = cause.subject
    text = f"numpy.{want.dtype}(…)" if cause.is_number else f"{path}.astype({want.dtype!r})"
    words = "Convert them, as" if cause.likewise else "Convert it:"
    return f"{words} {text}. Or add the dtype to the manifest and build again."


def _of_strength(cause: Cause, want: Aval) -> str:
    rest = f"or write {cause.have} in the manifest and build again."
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
