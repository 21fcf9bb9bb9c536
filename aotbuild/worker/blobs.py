"""The blobs a worker writes, each once, under its digest; arrays as safetensors.

And the folders of this machine that no byte of a package may name.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aotbuild.errors import PlanError, TraceRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.files import write_whole
from aotbuild.format.record import Blob, Constant
from aotbuild.format.tensors import write_tensors
from aotbuild.worker.leaves import layout_order, to_aval

TENSOR_NAME = "constant"
# numpy's own bools, integers and floats; safetensors lacks longdouble.
_KEPT_KINDS = "biuf"


@dataclass(frozen=True)
class BlobFolder:
    """Content-addressed files below `root`; no reader sees half of one.

    `stored` has the store's keys of those that are entries of it, by SHA-256.
    """

    root: Path
    stored: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, data: bytes, key: str | None = None) -> Blob:
        """Write `data`, the store's entry `key` if that is given, and return the blob.

        PlanError if it cannot be written.
        """
        blob = Blob(kind, sha256_hex(data), len(data))
        if key is not None:
            self.stored[blob.sha256] = key
        final = self.root / blob.path
        if not final.exists():
            try:
                final.parent.mkdir(parents=True, exist_ok=True)
                write_whole(final, data)
            except OSError as err:
                msg = f"{final}: {blob.size:,} bytes cannot be written: {err.strerror}"
                raise PlanError(msg) from err
        return blob

    def read(self, blob: Blob) -> bytes:
        """Return the bytes of a blob that was added."""
        return (self.root / blob.path).read_bytes()


def store_constants(values: list[Any], blobs: BlobFolder) -> tuple[Constant, ...]:
    """Write each constant in its own blob, so that equal arrays are stored once.

    TraceRefused for one with a layout: the executable would take it in that, and the loader has
    arrays in row-major order only.
    """
    for value in values:
        if order := layout_order(value):
            msg = (
                f"the closed-over array {to_aval(value.aval)} has a layout, major_to_minor {order}"
                "; a hoisted constant has jax's own\nCopy it with jax.numpy.array(x), or set "
                "constants: embed."
            )
            raise TraceRefused(msg)
    return tuple(
        Constant(to_aval(value.aval), store_array(np.asarray(value), blobs)) for value in values
    )


def store_array(array: Any, blobs: BlobFolder) -> Blob:
    """Write one array in its own blob."""
    return blobs.add("safetensors", serialize({TENSOR_NAME: array}))


def serialize(arrays: dict[str, Any]) -> bytes:
    """Return arrays as safetensors; equal arrays give equal bytes."""
    return write_tensors({name: _entry(array) for name, array in arrays.items()})


def _entry(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    bits = _bits(array)
    return f"{bits.dtype.kind}{bits.dtype.itemsize}", bits.shape, bits.tobytes()


def _bits(array: Any) -> Any:
    """Return an array in a dtype that safetensors has: others as unsigned integers of their width.

    There are none of 16 bytes, so complex128 becomes pairs of 8 bytes.
    """
    array = np.ascontiguousarray(array)
    if array.dtype.isbuiltin == 1 and array.dtype.kind in _KEPT_KINDS:
        return array
    width = min(array.dtype.itemsize, 8)
    shape = array.shape if width == array.dtype.itemsize else (*array.shape, 2)
    return array.reshape(-1).view(f"u{width}").reshape(shape)


# --- paths of this machine ------------------------------------------------------------------------

# What ends a path in bytes: a control character or a quote.
_PATH_END = re.compile(rb"[\0-\x1f\"']")
_LONGEST = 300


class SecretPaths(tuple[bytes, ...]):
    """The folders, the most specific first: those given, home, Python's own and its path."""

    __slots__ = ()

    @classmethod
    def of_this_machine(cls, given: Iterable[str]) -> SecretPaths:
        home = str(Path("~").expanduser())
        paths = {*given, home, sys.prefix, sys.base_prefix, *map(os.path.abspath, sys.path)}
        # Short ones such as / or /usr occur by chance.
        long_enough = (path for path in paths if path.count(os.sep) > 1)
        return cls(os.fsencode(path) for path in sorted(long_enough, key=len, reverse=True))

    def are_in(self, data: bytes) -> bool:
        """Return whether one of them is in these bytes."""
        return any(path in data for path in self)

    def refuse_in(self, what: str, data: bytes) -> None:
        """Raise TraceRefused if one of them is in these bytes, which are `what`."""
        for path in self:
            at = data.find(path)
            if at >= 0:
                found = _PATH_END.split(data[at : at + _LONGEST])[0].decode("utf-8", "ignore")
                msg = (
                    f"{what} would contain {found!r}, a path of this machine; the function "
                    "probably keeps __file__ or a path in a name (jax.named_scope, __name__) or in "
                    "a static value: take it out there"
                )
                raise TraceRefused(msg)
