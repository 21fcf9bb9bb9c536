"""Avals: the shape, dtype and weak type of one array, written as JAX prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aotbuild.format.dtypes import BY_SHORT, DTYPES, NARROWED, long_dtype

_PATTERN = r"(?P<weak>~?)(?P<dtype>[a-z0-9_]+(?:<[a-z]+>)?)\[(?P<shape>[^\[\]]*)\]\Z"
_DIM = r"[A-Za-z_][A-Za-z0-9_]*\Z"
_LONGEST_SIZE = 18


class NotAnArray(TypeError):
    """A value has no aval that an executable can take; the message says what it is."""

    def __init__(self, value: Any, reason: object = "") -> None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        super().__init__(f"a {kind}: {reason}" if reason else f"a {kind}")


@dataclass(frozen=True)
class Aval:
    """Shape, dtype (long name, as `float32` or `key<fry>`) and weak type of one array."""

    shape: tuple[int, ...]
    dtype: str
    weak_type: bool = False

    def __str__(self) -> str:
        weak = "~" if self.weak_type else ""
        return f"{weak}{DTYPES[self.dtype].short}[{','.join(map(str, self.shape))}]"

    @classmethod
    def parse(cls, text: str) -> Aval:
        """Read what `str` writes, as `bf16[8,128]` or `~f32[]`; ValueError says what is wrong."""
        quick = _parse_plain(text)
        if quick is not None:
            return quick
        shape, dtype, weak = parse_spec(text)
        sizes = tuple(dim for dim in shape if isinstance(dim, int))
        if len(sizes) != len(shape):
            msg = f"{text!r} has a named dim where a size is needed"
            raise ValueError(msg)
        return cls(sizes, dtype, weak)

    @property
    def needs_x64(self) -> bool:
        """Whether JAX represents this dtype only with `jax_enable_x64`."""
        return self.dtype in NARROWED


@lru_cache(1024)
def _parse_plain(text: str) -> Aval | None:
    """Read an aval as `str` writes it, without a regular expression; None for everything else."""
    weak = text.startswith("~")
    name, _, rest = text[weak:].partition("[")
    dims = rest[:-1].split(",") if rest != "]" else []
    known = BY_SHORT.get(name)
    is_plain = all(d.isascii() and d.isdigit() and len(d) <= _LONGEST_SIZE for d in dims)
    if not rest.endswith("]") or not is_plain or not known or known.key or name == "bool":
        return None
    return Aval(tuple(map(int, dims)), known.name, weak)


def parse_spec(text: str) -> tuple[tuple[int | str, ...], str, bool]:
    """Read an argument spec such as `i32[batch, 64]` into (shape, long dtype name, weak type).

    Dims are sizes (int, at least 0) or names (str). ValueError says what is wrong.
    """
    match = re.match(_PATTERN, text.strip())
    if match is None:
        msg = f"{text!r} is not an aval; expected dtype[dims], for example f32[8,128] or i32[batch]"
        raise ValueError(msg)
    dtype = long_dtype(match["dtype"])
    dims = match["shape"].split(",") if match["shape"].strip() else []
    shape = tuple(_parse_dim(dim.strip(), text) for dim in dims)
    if match["weak"] and dtype.startswith("key<"):
        msg = f"{text!r}: dtype {match['dtype']} has no weak type"
        raise ValueError(msg)
    return shape, dtype, bool(match["weak"])


def _parse_dim(dim: str, text: str) -> int | str:
    if dim.isascii() and dim.isdigit() and len(dim) <= _LONGEST_SIZE:
        return int(dim)
    if re.match(_DIM, dim):
        return dim
    msg = f"{text!r}: {dim!r} is neither a size nor the name of a dim"
    raise ValueError(msg)
