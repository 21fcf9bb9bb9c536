"""Golden values: seeded inputs, sampled outputs, and the tolerances of a comparison."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.dtypes import DTYPES
from aotbuild.format.target import HOST

# Sampled elements of one output, at most.
SAMPLES = 4096
# Names of what golden outputs have beside the sample of a result, behind its number.
DIGEST, SPREAD = ".sha256", ".spread"
_SMALL_INTEGERS = tuple(range(8))
_WEYL = 2654435761


def seeded(leaf: int, aval: Aval) -> Any:
    """Return the numpy array of a seeded leaf; for typed PRNG keys, their uint32 data."""
    shape = stored_shape(aval)
    flat = _fill(f"aotbuild golden 1 {leaf} {aval}", aval.dtype, math.prod(shape))
    return flat.reshape(shape)


def stored_shape(aval: Aval) -> tuple[int, ...]:
    """Return the shape in which an aval is stored; PRNG keys have one more dimension."""
    words = DTYPES[aval.dtype].words
    return (*aval.shape, words) if words else aval.shape


def stored_bytes(aval: Aval) -> int:
    """Return the size in bytes in which an aval is stored."""
    return math.prod(stored_shape(aval)) * int(numpy_dtype(aval.dtype).itemsize)


def sample_indices(size: int) -> Any:
    """Return the indices of the sampled elements of a flat array of `size`, as sorted int64.

    Up to `SAMPLES` elements, all; else one from each of so many equal parts, at varying offsets.
    """
    import numpy as np

    if size <= SAMPLES:
        return np.arange(size, dtype=np.int64)
    part = np.arange(SAMPLES + 1, dtype=np.int64) * size // SAMPLES
    jitter = np.arange(SAMPLES, dtype=np.int64) * _WEYL % (1 << 16)
    return part[:-1] + (jitter * (part[1:] - part[:-1]) >> 16)


def samples(arrays: Sequence[Any], floats: Sequence[str]) -> dict[str, Any]:
    """Return what is kept of results, as tensors by name: `0`, `1`, …, and digests as `0.sha256`.

    The build adds `0.spread`.

    `floats` are the dtypes of floats that the function computes with. A digest is kept of integers
    that a sample does not hold whole, if there are no floats, whose rounding may decide an integer.
    """
    import numpy as np

    found = {}
    for index, array in enumerate(arrays):
        flat = array.reshape(-1)
        found[str(index)] = flat[sample_indices(flat.size)]
        if flat.size > SAMPLES and not floats and is_exact(str(flat.dtype)):
            found[f"{index}{DIGEST}"] = np.frombuffer(digest_of(flat), np.uint8)
    return found


def nudged(array: Any) -> Any:
    """Return an array of float32 or float64, half of it moved to the neighbours nearer to 0."""
    import numpy as np

    if str(array.dtype) not in ("float32", "float64", "complex64", "complex128"):
        return array
    parts = array.reshape(-1).view(array.real.dtype)
    moves = (np.arange(parts.size) * _WEYL >> 16 & 1 == 0) & np.isfinite(parts)
    moved = np.where(moves, np.nextafter(parts, 0), parts)
    return moved.view(array.dtype).reshape(array.shape)


def spread(array: Any, other: Any) -> float:
    """Return the largest finite distance of the sampled elements of two results; 0 for integers."""
    import numpy as np

    if not default_tolerance(str(array.dtype), HOST):
        return 0.0
    at = sample_indices(array.size)
    moved = distance(*(widened(each.reshape(-1)[at]) for each in (array, other)))
    return float(moved[np.isfinite(moved)].max(initial=0.0))


def digest_of(array: Any) -> bytes:
    """Return the SHA-256 of integers or booleans in row-major order, of `int4` a byte for each."""
    import numpy as np

    plain = array if array.dtype.isbuiltin == 1 else array.astype(np.int8)
    return hashlib.sha256(np.ascontiguousarray(plain).data).digest()


def is_exact(dtype: str) -> bool:
    """Return whether a dtype has integers or booleans."""
    return dtype.startswith(("int", "uint", "bool"))


def _fill(seed: str, dtype: str, count: int) -> Any:
    """Return `count` elements, each from its own little-endian bytes of the stream."""
    known = DTYPES[dtype]
    if known.parts:
        parts = _fill(seed, known.parts, 2 * count)
        return parts.view(numpy_dtype(dtype))
    element = numpy_dtype(dtype)
    words = _words(seed, element.itemsize, count)
    if known.key:
        return words
    if known.significand:
        return _floats(words, known.significand).astype(element, copy=False)
    import numpy as np

    table = np.array(known.seeds or _SMALL_INTEGERS, np.float32).astype(element)
    return table[words % len(table)]


def _words(seed: str, width: int, count: int) -> Any:
    import numpy as np

    stream = hashlib.shake_256(seed.encode("ascii")).digest(count * width)
    return np.frombuffer(stream, f"<u{width}").astype(f"u{width}", copy=False)


def _floats(words: Any, bits: int) -> Any:
    """Return (2k + 1 - 2^bits) / 2^bits for the low bits k: never 0, and exact in the dtype."""
    import numpy as np

    wide, exact = (np.int64, np.float64) if bits > 24 else (np.int32, np.float32)
    # In place: a leaf may have hundreds of megabytes.
    numerators = (words & words.dtype.type((1 << bits) - 1)).astype(wide, copy=False)
    numerators <<= 1
    numerators += 1 - (1 << bits)
    values = numerators.astype(exact)
    values *= exact(2.0**-bits)
    return values


def numpy_dtype(name: str) -> Any:
    """Return numpy's dtype of a name; for typed PRNG keys, that of their data."""
    import numpy as np

    if name in DTYPES and DTYPES[name].key:
        return np.dtype(np.uint32)
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


# The largest tolerance inherited from coarser intermediate floats: with more, zeros would pass.
_MOST_INHERITED = 0.1
# The part of a tolerance that counts as absolute, limited for the same reason.
_MOST_ABSOLUTE = 0.1
# An executable rounds in every operation, `nudged` arguments once.
_ROUNDINGS = 32


def default_tolerance(dtype: str, platform: str) -> float:
    """Return the relative tolerance of a float dtype; 0 for every other dtype."""
    known = DTYPES.get(dtype)
    if known is None:
        return 0.0
    return known.host if platform == HOST else known.accelerator


@dataclass(frozen=True)
class Tolerance:
    """A bound `atol + rtol * |expected|`; None means the default of the dtype.

    `floats` are the dtypes that the function computes with; a result is as coarse as the coarsest.
    """

    platform: str
    floats: tuple[str, ...] = ()
    rtol: float | None = None
    atol: float | None = None

    @property
    def is_default(self) -> bool:
        """Whether the dtypes alone decide it."""
        return self.rtol is None and self.atol is None

    def bound(self, want: Any, dtype: str, spread: float = 0.0) -> Any:
        """Return the largest difference of each element; 0 for NaN and for infinities.

        `want` is widened, `dtype` is its own. `spread` is how far `nudged` arguments moved it.
        """
        import numpy as np

        coarsest = max((default_tolerance(name, self.platform) for name in self.floats), default=0)
        default = max(default_tolerance(dtype, self.platform), min(coarsest, _MOST_INHERITED))
        size = root_mean_square(want)
        amplified = min(_ROUNDINGS * spread, _MOST_INHERITED * size)
        absolute = max(min(default, _MOST_ABSOLUTE) * size, amplified)
        rtol = default if self.rtol is None else self.rtol
        atol = absolute if self.atol is None else self.atol
        with np.errstate(all="ignore"):
            return np.where(np.isfinite(want), atol + rtol * np.abs(want), 0.0)


def widened(array: Any) -> Any:
    """Return an array of floats as float64, of complex numbers as complex128."""
    return array.astype("complex128" if array.dtype.kind == "c" else "float64")


def near(want: Any, have: Any, bound: Any) -> Any:
    """Return whether each element is within its bound; NaN and infinities equal themselves."""
    import numpy as np

    is_equal = (have == want) | (np.isnan(have) & np.isnan(want))
    return is_equal | (distance(want, have) <= bound)


def distance(want: Any, have: Any) -> Any:
    """Return the distance between elements; NaN where one is not a number."""
    import numpy as np

    with np.errstate(all="ignore"):
        return np.abs(have - want)


def root_mean_square(want: Any) -> float:
    """Return the size of an array's finite numbers."""
    import numpy as np

    finite = np.abs(want[np.isfinite(want)])
    if not finite.size:
        return 0.0
    # Scaled, so that the squares of large numbers do not overflow.
    largest = float(finite.max())
    return largest * math.sqrt(float(np.mean((finite / largest) ** 2))) if largest else 0.0
