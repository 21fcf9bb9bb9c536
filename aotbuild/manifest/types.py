"""What a validated manifest is made of: frozen values, no behaviour."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from aotbuild.platforms.building import Request
from aotbuild.spec.padding import PaddedDim

Scalar: TypeAlias = bool | int | float | str | None
Row: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class LeafSpec:
    """One array: sizes or dim names, and the full dtype name."""

    shape: tuple[int | str, ...]
    dtype: str
    weak_type: bool = False


@dataclass(frozen=True)
class LikeSpec:
    """The tree of avals that ``module:attr`` is, or returns for these dims."""

    ref: str
    dims: tuple[str, ...] = ()
    values: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True)
class ListSpec:
    """A list pytree."""

    items: tuple[ArgSpec, ...]


@dataclass(frozen=True)
class TupleSpec:
    """A tuple pytree."""

    items: tuple[ArgSpec, ...]


@dataclass(frozen=True)
class DictSpec:
    """A dict pytree with text keys, in the order of the manifest."""

    items: tuple[tuple[str, ArgSpec], ...]


@dataclass(frozen=True)
class NoneSpec:
    """``None``: a subtree without leaves."""


ArgSpec: TypeAlias = LeafSpec | LikeSpec | ListSpec | TupleSpec | DictSpec | NoneSpec


@dataclass(frozen=True)
class PartitionSpec:
    """Per array dimension: unsharded, one mesh axis, or several."""

    axes: tuple[str | tuple[str, ...] | None, ...]


@dataclass(frozen=True)
class ShardingTree:
    """A tree prefix: dict key, index or attribute name to its sharding."""

    items: tuple[tuple[str | int, Sharding], ...]


Sharding: TypeAlias = PartitionSpec | ShardingTree | None


@dataclass(frozen=True)
class StaticArg:
    """A static argument, by name or by position, and the values built for."""

    name: str | None
    position: int | None
    values: tuple[Hashable, ...]


@dataclass(frozen=True)
class ExportOptions:
    """What ``jax.export`` is told for the portable artifact."""

    dims: tuple[tuple[str, str], ...] = ()
    constraints: tuple[str, ...] = ()
    vjp_order: int = 0
    disabled_checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifyOptions:
    """Golden outputs: `golden` is auto, always or never; `inputs` is ``module:function``.

    A tolerance of None is decided by dtype and platform.
    """

    golden: str = "auto"
    inputs: str | None = None
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class KeepOptions:
    """Which stages are kept; `where` is ``beside`` (the wheel) or ``wheel``."""

    stages: tuple[str, ...] = ()
    where: str = "beside"


@dataclass(frozen=True)
class FunctionEntry:
    """One entry under ``functions:``, with the defaults applied.

    ``rows`` holds the sizes of all dims, one row a signature; it is ``((),)``
    where there are no dims. ``line`` and ``column`` are those of the name.
    """

    name: str
    call: str
    args: tuple[tuple[str, ArgSpec], ...]
    kwargs: tuple[tuple[str, ArgSpec], ...]
    rows: tuple[Row, ...]
    statics: tuple[StaticArg, ...]
    donate: tuple[str, ...]
    keep_unused: bool
    mesh: tuple[tuple[str, int], ...]
    in_shardings: tuple[tuple[str, Sharding], ...]
    out_shardings: Sharding
    out_shardings_given: bool
    compiler_options: tuple[tuple[str, Scalar], ...]
    config: tuple[tuple[str, Scalar], ...]
    env: tuple[tuple[str, str], ...]
    constants: str
    export: ExportOptions
    verify: VerifyOptions
    purity: str
    pad: tuple[PaddedDim, ...]
    startup: str
    line: int
    column: int


@dataclass(frozen=True)
class ToolchainRequest:
    """An exact jax version, the Python that runs it if that matters, and what it needs besides."""

    jax: str
    python: str | None = None
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """A whole manifest; ``digest`` is the SHA-256 of the file's bytes, in hex."""

    file: str
    digest: str
    version: int
    package: str
    runtime: str
    fallback: str
    targets: tuple[Request, ...]
    toolchains: tuple[ToolchainRequest, ...] = ()
    functions: tuple[FunctionEntry, ...] = ()
    keep: KeepOptions = KeepOptions()
    memory: str = "refuse"
