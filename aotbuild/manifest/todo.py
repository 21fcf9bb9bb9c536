"""`TODO` in a manifest: what `aotbuild init` leaves where the source says nothing."""

from __future__ import annotations

from collections.abc import Sequence

TODO = "TODO"
_LEFT = "TODO is left here; write"
_SPEC = 'its spec, such as f32[8,128] or {like: "module:attr"}'
_OPTIONS = {
    "args": "the arguments in order, each as - name: spec",
    "kwargs": "the arguments, each as name: spec",
    "dims": "the sizes of each dim, such as {batch: [1, 8]}",
    "static": "the values of each static argument, such as {causal: [true, false]}",
    "mesh": "the axes and their sizes, such as {data: 2}",
    "call": "module:qualname",
}
_INSIDE = {
    "args": _SPEC,
    "kwargs": _SPEC,
    "dims": "the sizes of this dim, such as [1, 8]",
    "static": "the values that calls pass, such as [true, false]",
    "mesh": "the number of devices along this axis, such as 2",
}


def value_message(steps: Sequence[object]) -> str:
    """Return what to write instead of a `TODO` at a place of the manifest."""
    path = [*steps[2:]] if steps[:1] == ("functions",) else [*steps]
    path = path[2:] if path[:1] == ["signatures"] else path
    table = _INSIDE if len(path) > 1 else _OPTIONS
    wanted = table.get(str(path[0])) if path else None
    return f"{_LEFT} {wanted or 'the value'}" + (
        "" if wanted else ', or "TODO" in quotes for the text'
    )


def spec_message(text: str) -> str | None:
    """Return what is to be written in a spec that has `TODO` for a part; None if it has none."""
    dtype, bracket, shape = text.strip().partition("[")
    if not bracket:
        return None
    wanted = ["the dtype, such as f32"] if dtype == TODO else []
    if TODO in (dim.strip() for dim in shape.removesuffix("]").split(",")):
        wanted.append("a size or the name of a dim")
    return f"{_LEFT} {' and '.join(wanted)}: {text!r}" if wanted else None
