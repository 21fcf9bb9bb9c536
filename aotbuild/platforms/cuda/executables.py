"""What an executable for NVIDIA GPUs says of itself: XLA's choices, and what its bytes hold.

Without the GPU, XLA cannot measure. What it takes instead is wrong or slow for some instructions:
Triton matmuls with the smallest tiles, and cuDNN's convolutions with algorithm -1, which cuDNN
refuses when they run. docs/explanation/targets-facts.md says what was tried on which version.

The bytes are compressed: records of Riegeli, in chunks that are compressed with Snappy, inside a
protobuf. See google/riegeli doc/riegeli_records_file_format.md and google/snappy
format_description.txt.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from aotbuild.errors import TraceRefused
from aotbuild.format.protobuf import Malformed, varint
from aotbuild.format.target import Target

# --- XLA's choices, in the text of an optimized HLO module ---------------------------------------

_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?(?P<name>\S+) = (?P<shape>.*?) (?P<opcode>[\w-]+)\(")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?(\S+) \(.*\{$")
_CALLS = re.compile(r"\bcalls=%?([^\s,}]+)")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_SIZES = re.compile(r"\[([0-9,]*)\]")
_CONFIG = "backend_config="
_DOTS = ("dot", "scaled-dot", "ragged-dot")
# XLA sorts with CUB from this size on where it has the device (xla/service/gpu, SortRewriter).
_LARGE_SORT = 16385
# A user's option with one of these in its name decides how matmuls are compiled.
_OF_MATMULS = ("triton", "gemm", "autotun", "cublas")
TUNE = "run aotbuild tune on the GPU, and name its file under tuning: of the target"


@dataclass(frozen=True)
class Choices:
    """The instructions that XLA has several ways to run, each as its name and shape."""

    library_matmuls: tuple[str, ...] = ()
    triton_matmuls: tuple[str, ...] = ()
    convolutions: tuple[str, ...] = ()
    convolutions_without_algorithm: tuple[str, ...] = ()
    large_sorts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, int]:
        """Return how many there are of each kind, where there are any."""
        return {name: len(found) for name, found in vars(self).items() if found}


def choices(hlo: str) -> Choices:
    """Return the choices in the text of an optimized HLO module."""
    found: dict[str, list[str]] = {name: [] for name in Choices.__dataclass_fields__}
    with_dots = _computations_with_dots(hlo)
    for line in hlo.splitlines():
        if instruction := _INSTRUCTION.match(line):
            for kind in _kinds(instruction["opcode"], instruction["shape"], line, with_dots):
                found[kind].append(f"%{instruction['name']} = {instruction['shape']}")
    return Choices(**{name: tuple(names) for name, names in found.items()})


def _kinds(opcode: str, shape: str, line: str, with_dots: frozenset[str]) -> Iterator[str]:
    if opcode == "custom-call":
        target = _TARGET.search(line)
        name = target[1] if target else ""
        if name.startswith("__cublas$") and "triangularSolve" not in name:
            yield "library_matmuls"
        elif name.startswith("__cudnn$conv"):
            yield "convolutions"
            algorithm = _config(line).get("cudnn_conv_backend_config", {}).get("algorithm", {})
            if int(algorithm.get("algo_id", 0 if algorithm else -1)) < 0:
                yield "convolutions_without_algorithm"
    elif opcode == "fusion":
        kind = _config(line).get("fusion_backend_config", {}).get("kind", "")
        calls = _CALLS.search(line)
        if kind.startswith("__triton") and calls and calls[1] in with_dots:
            yield "triton_matmuls"
    elif opcode == "sort":
        sizes = [int(size) for size in _SIZES.findall(shape)[0].split(",") if size]
        if max(sizes, default=0) == prod(sizes) >= _LARGE_SORT:
            yield "large_sorts"


def _config(line: str) -> dict[str, Any]:
    """Return an instruction's backend_config where it is JSON; typed custom calls have MLIR."""
    at = line.find(_CONFIG)
    if at < 0:
        return {}
    try:
        found, _ = json.JSONDecoder().raw_decode(line, at + len(_CONFIG))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _computations_with_dots(hlo: str) -> frozenset[str]:
    """Return the names of computations with a matrix product, also in what they call."""
    calls: dict[str, set[str]] = {}
    found, name = set(), ""
    for line in hlo.splitlines():
        if header := _COMPUTATION.match(line):
            name = header[1]
            calls[name] = set()
        elif name and (instruction := _INSTRUCTION.match(line)):
            if instruction["opcode"] in _DOTS:
                found.add(name)
            calls[name].update(_CALLS.findall(line))
    while more := {name for name, inner in calls.items() if inner & found} - found:
        found |= more
    return frozenset(found)


def check_convolutions(target: Target, found: Choices) -> None:
    """Refuse convolutions without an algorithm: cuDNN refuses those on the GPU."""
    if names := found.convolutions_without_algorithm:
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        msg = (
            f"{target}: a convolution's algorithm can only be chosen on the GPU, and it has no "
            f"tuning result: {names[0]}{others}\nChoose it there: {TUNE}; or build on the GPU, "
            "with gpu: host. XLA's own kernels need no tuning, and are far slower: "
            "compiler_options: {xla_gpu_experimental_enable_conv_fusion: true}."
        )
        raise TraceRefused(msg)


def untuned_notes(target: Target, found: Choices, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a user should know of choices that nobody measured; TraceRefused for Triton's."""
    if names := found.triton_matmuls:
        what = f"{len(names)} Triton matmuls with tiles that nobody measured, such as {names[0]}"
        theirs = [name for name in options if any(part in name for part in _OF_MATMULS)]
        if not theirs:
            msg = f"{target}: XLA chose {what}; they may be slow, or wrong: {TUNE}, or report this"
            raise TraceRefused(msg)
        yield f"compiler_options ({', '.join(theirs)}) bring {what}; they may be slow, or wrong."
    if names := found.large_sorts:
        yield (
            f"{names[0]} is sorted by XLA's own kernels, which take about three times as long as "
            "CUB's; only a build on the GPU (gpu: host) has those."
        )


# --- the bytes -----------------------------------------------------------------------------------

# How a file of Riegeli begins: the header of the first block, and that of an empty first chunk.
_SIGNATURE = bytes.fromhex("83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a9")
_BLOCK, _BLOCK_HEADER = 1 << 16, 24
_CHUNK = struct.Struct("<8xQ8xQQ")
_RECORDS, _SNAPPY, _PLAIN = ord("r"), ord("s"), 0


class NotReadable(ValueError):
    """The bytes are not in the form that is known here; the text says what was found."""


def readable(data: bytes) -> bytes:
    """Return the bytes, followed by what is compressed in them; NotReadable for another form."""
    return data + b"\0" + records(data)


def records(data: bytes) -> bytes:
    """Return what is compressed in the bytes, and nothing of them as they are; else NotReadable.

    Compressed text may stand there cut short: `sm_100a` as `sm_100`.
    """
    start = data.find(_SIGNATURE)
    if start < 0:
        msg = "no records of Riegeli"
        raise NotReadable(msg)
    try:
        return b"\0".join(_chunks(_without_block_headers(data[start:])))
    except (IndexError, struct.error, Malformed) as err:
        msg = "they end within a chunk"
        raise NotReadable(msg) from err


def _without_block_headers(data: bytes) -> bytes:
    starts = range(0, len(data), _BLOCK)
    return b"".join(data[at + _BLOCK_HEADER : at + _BLOCK] for at in starts)


def _chunks(data: bytes) -> Iterator[bytes]:
    """Yield the decompressed records of every chunk; the rest of the protobuf follows the last."""
    at = _CHUNK.size
    while at + _CHUNK.size <= len(data):
        size, kind_and_count, whole = _CHUNK.unpack_from(data, at)
        kind, count = kind_and_count & 0xFF, kind_and_count >> 8
        at += _CHUNK.size
        if kind != _RECORDS:
            return
        yield _records(data[at : at + size], whole)
        at += max(size, count - _CHUNK.size)


def _records(chunk: bytes, whole: int) -> bytes:
    compression = chunk[0]
    size, at = varint(chunk, 1)
    values = chunk[at + size :]
    if compression == _PLAIN:
        found = values
    elif compression == _SNAPPY:
        # The length stands there twice: Riegeli's, then Snappy's own.
        found = _unsnappy(values[varint(values, 0)[1] :])
    else:
        msg = f"compression {chr(compression)!r}"
        raise NotReadable(msg)
    if len(found) != whole:
        msg = f"a chunk of {len(found)} bytes that says {whole}"
        raise NotReadable(msg)
    return found


def _unsnappy(data: bytes) -> bytes:
    size, at = varint(data, 0)
    out = bytearray()
    while len(out) < size:
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length, at = _literal_length(data, tag >> 2, at)
            out += data[at : at + length]
            at += length
            continue
        if tag & 3 == 1:
            length, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[at]
            at += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            length, offset = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
            at += width
        if not 0 < offset <= len(out):
            msg = "a copy from before the beginning"
            raise NotReadable(msg)
        _copy(out, offset, length)
    return bytes(out)


def _literal_length(data: bytes, coded: int, at: int) -> tuple[int, int]:
    if coded < 60:
        return coded + 1, at
    width = coded - 59
    return int.from_bytes(data[at : at + width], "little") + 1, at + width


def _copy(out: bytearray, offset: int, length: int) -> None:
    """Repeat what is `offset` bytes back; the copy may overlap what it makes."""
    start = len(out) - offset
    piece = bytes(out[start : start + length])
    out += (piece * (length // len(piece) + 1))[:length]
