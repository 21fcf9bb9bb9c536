"""Whether an executable and its record say the same.

jaxlib believes what it is told of results: a record that claims others than the executable returns
would make arrays over memory that is not theirs. It would also run native functions that nobody
initialized. And an argument whose memory a call takes away must be known as one.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotbuild.errors import InvalidIndex
from aotbuild.format.aval import Aval
from aotbuild.format.record import PYTHON_CALL, PartitionSpec, Record
from aotbuild.runtime.stated import Shape, Stated

# PrimitiveType, by the long names of dtypes.
_TYPES = {
    name: number
    for first, names in (
        (1, "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"),
        (15, "complex64 bfloat16"),
        (18, "complex128 float8_e5m2 float8_e4m3fn int4 uint4 float8_e4m3b11fnuz"),
        (24, "float8_e5m2fnuz float8_e4m3fnuz int2 uint2 float8_e4m3 float8_e3m4"),
        (32, "float4_e2m1fn float8_e8m0fnu"),
    )
    for number, name in enumerate(names.split(), first)
}


def check_stated(record: Record, stated: Stated | None) -> None:
    """Raise InvalidIndex if an executable takes, returns or calls something else than its record.

    Or if it is one for another number of devices. None is not compared.
    """
    if stated is None:
        return
    if stated.devices != record.requires.devices:
        raise _lie(record, "requires.devices", f"{stated.devices}", f"{record.requires.devices}")
    _check_calls(record, stated)
    calling = record.calling
    mesh, constants, leaves = dict(calling.mesh), calling.constants, record.signature.leaves
    specs = calling.in_specs or ((),) * len(leaves)
    # XLA chooses how a constant lies on several devices.
    places = [f"calling.constants[{index}]" for index in range(len(constants))]
    places += [f"signature.leaves[{index}]" for index in range(len(leaves))]
    shapes = [None if mesh else _shape(each.aval) for each in constants]
    shapes += [_shape(aval, spec, mesh) for aval, spec in zip(leaves, specs, strict=True)]
    kept = sorted(calling.kept)
    found = [shapes[index] for index in kept]
    _compare(record, "calling.kept", [places[index] for index in kept], found, stated.inputs)
    _check_donated(record, [kept[index] - len(constants) for index in stated.donated])
    specs = calling.out_specs or ((),) * len(calling.outputs)
    found = [_shape(aval, s, mesh) for aval, s in zip(calling.outputs, specs, strict=True)]
    places = [f"calling.outputs[{index}]" for index in range(len(found))]
    _compare(record, "calling.outputs", places, found, stated.outputs)


def _check_calls(record: Record, stated: Stated) -> None:
    calls, python, lapack = record.requires.custom_calls, stated.python, stated.lapack
    if python and PYTHON_CALL not in calls:
        raise _lie(record, "calling.callbacks", f"that of {python}", "none")
    if lapack and not any(
        call.provider == "jax" and call.target.startswith("lapack_") for call in calls
    ):
        raise _lie(record, "requires.custom_calls", f"{lapack} of jax", "none")


def _check_donated(record: Record, taken: Sequence[int]) -> None:
    """Raise InvalidIndex unless a record says which leaves an executable takes the memory of.

    A constant, which comes before the leaves, never is one. What a record names besides is kept:
    XLA finds no use for the memory of each argument that a function donates.
    """
    hidden = [leaf for leaf in taken if leaf not in record.calling.donated]
    if hidden:
        raise _lie(record, "calling.donated", f"{sorted(taken)}", f"{[*record.calling.donated]}")


def _lie(record: Record, place: str, expected: str, found: str) -> InvalidIndex:
    return InvalidIndex(f"{record}: {place}", f"{expected}, as the executable has", found)


def _compare(
    record: Record,
    numbers: str,
    places: Sequence[str],
    found: Sequence[Shape | None],
    stated: Sequence[Shape],
) -> None:
    if len(found) != len(stated):
        raise _lie(record, numbers, f"{len(stated)} arrays", f"{len(found)}")
    for place, have, want in zip(places, found, stated, strict=True):
        if have is not None and have != want:
            each = " on each device" if record.calling.mesh else ""
            raise _lie(record, place, _text(want) + each, _text(have))


def _shape(
    aval: Aval, spec: PartitionSpec = (), mesh: dict[str, int] | None = None
) -> Shape | None:
    """Return the shape of an array on one device of a mesh; None if its dtype is not known."""
    if aval.dtype.startswith("key<"):
        from aotbuild.format.golden import stored_shape  # few functions take keys

        aval = Aval(stored_shape(aval), "uint32")
    number = _TYPES.get(aval.dtype)
    if number is None:
        return None
    sizes = list(aval.shape)
    for index, axes in enumerate(spec):
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            sizes[index] = -(-sizes[index] // (mesh or {})[axis])
    return number, tuple(sizes)


def _text(shape: Shape) -> str:
    names = {number: name for name, number in _TYPES.items()}
    number, sizes = shape
    return f"{names.get(number, f'type {number}')}[{','.join(map(str, sizes))}]"
