"""Weights in safetensors files, as arrays that calls take without a copy."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from aotbuild.errors import AotbuildError
from aotbuild.format.canonical import as_utf8
from aotbuild.format.files import open_regular
from aotbuild.format.tensors import ALIGNMENT, DTYPES, NEWER_DTYPES, Tensor, find_tensors
from aotbuild.runtime.buffers import SMALLEST_MAPPED, mapped
from aotbuild.runtime.weights import check_bools, dtype_named, read_tensor


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the tensors of a file as read-only numpy arrays that begin at multiples of 64 bytes.

    The file is mapped as far as its tensors are aligned, so processes that read it share the
    memory; it must not be changed while they run. Other tensors are copied, and so are all of a
    file that everybody may write.

    Args:
        path: The path of the file.

    Returns:
        The arrays by name, in the order of the file. bfloat16 and 8-bit floats have the dtypes of
        ml_dtypes.

    Raises:
        AotbuildError: It is no safetensors file, is incomplete, or has a dtype that numpy lacks.
        OSError: It cannot be opened or read, or is no regular file.

    Examples:
        >>> params = aotbuild.read_safetensors("weights.safetensors")
        >>> library.decode(params, token)
    """
    place = Path(path)
    with open_regular(place) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            return _arrays(place, file, size)
        except ValueError as err:
            raise _refusal(place, str(err)) from err


def _arrays(place: Path, file: IO[bytes], size: int) -> dict[str, np.ndarray[Any, Any]]:
    tensors = find_tensors(partial(_read, file), size, {**DTYPES, **NEWER_DTYPES})
    mapping = mapped(file, size) if any(map(_is_aligned, tensors.values())) else None
    made = {}
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].begin):
        made[name] = _array(place, file, tensor, mapping)
        if tensor.dtype == "b1":
            check_bools(name, made[name].view("u1"))
    return made


def _is_aligned(tensor: Tensor) -> bool:
    return tensor.begin % ALIGNMENT == 0 and tensor.end - tensor.begin >= SMALLEST_MAPPED


def _array(place: Path, file: IO[bytes], tensor: Tensor, mapping: memoryview | None) -> Any:
    if mapping is not None and _is_aligned(tensor):
        raw = np.frombuffer(mapping, np.uint8, tensor.end - tensor.begin, tensor.begin)
    else:
        raw = read_tensor(place, file, tensor)
    return raw.view(dtype_named(tensor.dtype)).reshape(tensor.shape)


def _read(file: IO[bytes], begin: int, end: int) -> bytes:
    file.seek(begin)
    return file.read(end - begin)


def _refusal(place: Path, found: str) -> AotbuildError:
    return AotbuildError(
        as_utf8(
            f"{place}\n  expected a complete safetensors file\n  found    {found}\n"
            "Copy or download it again; what has dtypes of its own, read with its library."
        )
    )
