"""Doors: what differs between calling with jax's arrays and with numpy's. Types only.

Nobody imports this at run time: each module costs every process that starts 0.1 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from aotbuild.runtime.binding import Call
from aotbuild.runtime.devices import Scope
from aotbuild.runtime.host import Host
from aotbuild.runtime.kernel import Package
from aotbuild.runtime.padding import Step
from aotbuild.spec.aval import Aval
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function


class Placement(Protocol):
    """Where an executable runs, as its door sees it; equal ones are the same place."""

    @property
    def devices(self) -> tuple[Any, ...]: ...


class Engine(Protocol):
    """The last step of a door. Bytes and constants that it is given are whole, and fit."""

    def initialize_lapack(self) -> None:
        """Bind jaxlib's LAPACK kernels; an executable that calls one before this segfaults."""
        ...

    def deserialize(self, data: bytes, devices: tuple[Any, ...]) -> Any:
        """Return PJRT bytes, loaded onto devices in that order."""
        ...

    def constant_places(
        self, record: Record, loaded: Any, devices: tuple[Any, ...]
    ) -> Sequence[Hashable]:
        """Return where each constant of a record has to be."""
        ...

    def physical(self, aval: Aval) -> tuple[tuple[int, ...], Any]:
        """Return (shape, numpy dtype) of the array that an aval is stored as."""
        ...

    def put(self, array: Any, aval: Aval, place: Any) -> Any:
        """Return a numpy array as a constant of that aval, in its place."""
        ...

    def executable(
        self, record: Record, loaded: Any, constants: tuple[Any, ...], placement: Any
    ) -> Any:
        """Return what runs a record, made of what was loaded for it."""
        ...


class Trees(Protocol):
    """What a door calls a tree: which types are nodes, and how treedefs are made.

    `nodes` are the types, as `module:name`, that are nodes beside the standard containers and
    namedtuples; None: all that were registered with jax. Where they are named, jax's own
    namedtuples are tuples: to import them would be to import jax.
    """

    nodes: frozenset[str] | None

    def flatten(self, tree: Any) -> tuple[list[Any], Any]:
        """Return the leaves of a tree and its treedef; ValueError for keys without an order."""
        ...

    def paths(self, tree: Any) -> list[tuple[Any, ...]]:
        """Return the key path of each leaf; a key is written by `str`."""
        ...

    def make_treedef(self, node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
        """Return the treedef of a node, or of a leaf; ValueError if its type is no node."""
        ...


class PaddedArrays(Protocol):
    """How a door's arrays are padded and cut; nothing is traced or compiled for it."""

    def fact(self, leaf: Any) -> Hashable | None:
        """Return what of a leaf decides its aval, without making that; None if unknown."""
        ...

    def problem(self, leaf: Any) -> tuple[str, str, str] | None:
        """Return (expected, found, remedy) of a leaf that cannot be padded, else None."""
        ...

    def pad(self, step: Step, index: int, leaf: Any) -> Any:
        """Return the leaf of that number, padded."""
        ...

    def cut(self, array: Any, shape: tuple[int, ...]) -> Any:
        """Return the beginning of a result, on each axis."""
        ...


class Fallback(Protocol):
    """What a function does where no executable runs."""

    def call_source(self, *args: Any, **kwargs: Any) -> Any:
        """Call the source, or raise NotTransformable."""
        ...

    def fall_back(self, error: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what the policy says instead of raising `error`, or raise it."""
        ...


class Door(Protocol):
    """One way to call executables. `arrays` is its name, `convert` makes an array of its kind."""

    arrays: str
    convert: str

    @property
    def trees(self) -> Trees: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def padding(self) -> PaddedArrays: ...

    def aval_of(self, value: Any) -> Aval:
        """Return the aval of a leaf; NotAnArray if it is none that an executable takes."""
        ...

    def is_tracer(self, value: Any) -> bool:
        """Return whether a leaf belongs to a transformation that is being traced."""
        ...

    def dispatch(
        self,
        name: str,
        source: Callable[..., Any],
        miss: Callable[..., Any],
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
    ) -> Callable[..., Any]:
        """Return the C++ cache of a function, with `miss` behind it."""
        ...

    def settings(self) -> Callable[[], AbstractContextManager[None]]:
        """Return what gives another thread those settings of this one that decide loading."""
        ...

    def probe(self, scope: Any) -> Host:
        """Return the facts of some devices."""
        ...

    def scope(self) -> Scope:
        """Return what a call may use that says nothing of devices."""
        ...

    def scope_on(self, where: Any) -> Scope:
        """Return what `Library.on(where)` stands for; AotbuildError if it is nothing."""
        ...

    def scope_of_call(self, call: Call) -> Scope:
        """Return what a call may use."""
        ...

    def place(self, call: Call, record: Record, scope: Scope) -> Any:
        """Return where a call of a record runs; InvalidArgument if it cannot run there."""
        ...

    def place_alone(self, record: Record, scope: Scope) -> Any:
        """Return where a call of a record runs that says nothing of devices."""
        ...

    def fallback(
        self,
        package: Package,
        function: Function,
        source: Callable[..., Any] | None,
        scope: Scope | None,
    ) -> Fallback:
        """Return what a function does where no executable runs."""
        ...
