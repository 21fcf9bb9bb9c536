"""Tensors in a blob, strictly in the layout of safetensors. Pure: bytes and numbers only.

The first 8 bytes are the length of the header, little-endian. The header is one JSON object with
trailing spaces. The tensors follow without gaps, starting at a multiple of `ALIGNMENT`. Any
safetensors library reads these files, and this module reads theirs if it knows the dtypes below.
`docs/reference/format.md` says the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aotbuild.format.dtypes import DTYPES as _ALL

# XLA:CPU uses an array without copying it only at an aligned address
# (cpu_function_runtime::MinAlign in xla/backends/cpu/alignment.h).
ALIGNMENT = 64
# numpy's letter and size of an element, by the name in safetensors. Arrays of other dtypes are kept
# as unsigned integers of the same width.
DTYPES: Mapping[str, str] = {
    dtype.tensor: f"{dtype.name[0]}{dtype.bits // 8}" for dtype in _ALL.values() if dtype.tensor
}
_NAMES = {code: name for name, code in DTYPES.items()}
_LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100_000_000  # what safetensors itself takes
METADATA = "__metadata__"
_KEYS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True)
class Tensor:
    """One tensor: `dtype` as numpy's letter and size, the shape, the byte range in the blob."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def write_tensors(tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """Return one blob of tensors, each (dtype, shape, bytes); equal tensors give equal blobs."""
    sizes = {name: int(dtype[1:]) for name, (dtype, _, _) in tensors.items()}
    order = sorted(tensors, key=lambda name: (-sizes[name], name))
    header, end = {}, 0
    for name in order:
        dtype, shape, _ = tensors[name]
        begin, end = end, end + sizes[name] * math.prod(shape)
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH_BYTES + len(text)) % ALIGNMENT)
    length = len(text).to_bytes(_LENGTH_BYTES, "little")
    return b"".join([length, text, *(tensors[name][2] for name in order)])


def begin_of(data: bytes | memoryview, name: str, size: int) -> int | None:
    """Return the offset of the only tensor of a blob that `write_tensors` wrote, else None.

    The caller knows the name, the size in bytes, dtype and shape. The header is not parsed, because
    a program may have hundreds of blobs. `read_tensors` may still read a blob for which this
    returns None. Use it only for bytes whose digest was checked.
    """
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    if start + size != len(data):
        return None
    header = bytes(data[_LENGTH_BYTES:start]).rstrip(b" ")
    first, last = b'{"%b":{"dtype":' % name.encode(), b',"data_offsets":[0,%d]}}' % size
    is_one = header.count(b"{") == 2 and header.startswith(first) and header.endswith(last)
    return start if is_one else None


def read_tensors(data: bytes | memoryview) -> dict[str, Tensor]:
    """Return the tensors of a blob; ValueError unless they fill it in order."""
    size, length = len(data), int.from_bytes(data[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if size < _LENGTH_BYTES or start > size or length > _MOST_HEADER_BYTES:
        msg = f"no header: {size} bytes that say it has {length}"
        raise ValueError(msg)
    header = _read_header(bytes(data[_LENGTH_BYTES:start]))
    tensors = {name: _tensor(name, entry, start) for name, entry in header.items()}
    end = start
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.begin, tensor.end)):
        if tensor.begin != end:
            msg = f"a tensor begins at {tensor.begin} where {end} was expected"
            raise ValueError(msg)
        end = tensor.end
    if end != size:
        msg = f"the tensors end at {end} of {size} bytes"
        raise ValueError(msg)
    return tensors


def _read_header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except RecursionError as err:
        msg = "a header that is too deep"
        raise ValueError(msg) from err
    if not text.startswith(b"{") or not isinstance(header, dict):
        msg = "a header that is no JSON object"
        raise ValueError(msg)
    metadata = header.pop(METADATA, None)
    # As the library safetensors has it.
    is_map = isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())
    if not (is_map or metadata is None):
        msg = f"{METADATA}: not a map of texts"
        raise ValueError(msg)
    return header


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "a header with a key that is there twice"
        raise ValueError(msg)
    return found


def _tensor(name: str, entry: Any, start: int) -> Tensor:
    """Return the tensor of a header entry, with offsets from the start of the blob."""
    if not isinstance(entry, dict) or entry.keys() != _KEYS:
        msg = f"{name}: not {', '.join(sorted(_KEYS))}"
        raise ValueError(msg)
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        msg = f"{name}: the dtype {dtype!r}"
        raise ValueError(msg)
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        msg = f"{name}: shape or offsets are no sizes"
        raise ValueError(msg)
    begin, end = offsets
    if end - begin != math.prod(shape) * int(DTYPES[dtype][1:]):
        msg = f"{name}: {end - begin} bytes for {dtype} of {shape}"
        raise ValueError(msg)
    return Tensor(DTYPES[dtype], tuple(shape), start + begin, start + end)


def _are_sizes(value: Any) -> bool:
    # numpy takes 64 dimensions at most; a bool is an int.
    return (
        isinstance(value, list)
        and len(value) <= 64
        and all(type(size) is int and 0 <= size < 1 << 63 for size in value)
    )
