"""The seam between the runtime and a backend: what calling with jax or with numpy has to provide.

Types only, so nobody imports this module at run time. A backend never sees a kernel or a library.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from aotbuild.errors import NoExecutable
from aotbuild.format.aval import Aval
from aotbuild.format.index import Index
from aotbuild.format.padding import Fills
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.wrap import Key
from aotbuild.platforms.base import Host
from aotbuild.runtime.binding import Call
from aotbuild.runtime.concurrency import Stats
from aotbuild.runtime.devices import DeviceSet
from aotbuild.runtime.trees import Leaves


class OpenPackage(Protocol):
    """What a fallback knows of the package; see `runtime.package.Package`."""

    stats: Stats

    @property
    def name(self) -> str: ...

    @property
    def index(self) -> Index: ...

    @property
    def editable(self) -> dict[str, Any]: ...

    def probe(self, devices: DeviceSet) -> Host: ...


class Placement(Protocol):
    """Where an executable runs; placements that compare equal are the same place."""

    @property
    def devices(self) -> tuple[Any, ...]: ...


class Executable(Protocol):
    """A loaded record. Leaves are in the order of its signature, outputs in that of the record."""

    @property
    def record(self) -> Record: ...

    def run(self, leaves: Sequence[Any], staying: frozenset[int] = frozenset()) -> list[Any]:
        """Run it on leaves that fit, and return its flat outputs.

        Those at the indices `staying` stay on the device; some backends take the others from it.
        """
        ...

    def fastpath_data(
        self,
        outputs: Sequence[Any],
        out_tree: Any,
        leaves: int,
        staying: frozenset[int] = frozenset(),
    ) -> Any:
        """Return what the C++ dispatch needs to run it without Python, or None."""
        ...


class ExecutableLoader(Protocol):
    """The last step of loading. Bytes and constants that it is given are checked and fit."""

    def register(self, target: str, handler: Any, platform: str) -> None:
        """Register a custom call of XLA's typed FFI; `platform` is XLA's name of it.

        One that is registered already may be registered again.
        """
        ...

    def custom_call_targets(self, platform: str) -> frozenset[str] | None:
        """Return the targets that are registered for a platform; None if XLA lists none."""
        ...

    def deserialize(self, data: bytes, devices: tuple[Any, ...]) -> Any:
        """Return the XLA executable of PJRT bytes, loaded onto devices in that order."""
        ...

    def constant_destinations(
        self, record: Record, loaded: Any, devices: tuple[Any, ...]
    ) -> Sequence[Hashable]:
        """Return where each constant of a record has to be put, as `put` takes it."""
        ...

    def physical(self, aval: Aval) -> tuple[tuple[int, ...], Any]:
        """Return (shape, numpy dtype) of the array that an aval is stored as."""
        ...

    def put(self, array: Any, aval: Aval, destination: Any) -> Any:
        """Return a numpy array as a constant of that aval, in its destination."""
        ...

    def executable(
        self, record: Record, loaded: Any, constants: tuple[Any, ...], placement: Any
    ) -> Executable:
        """Return the executable of a record from its loaded bytes and constants."""
        ...


class PaddedArrays(Protocol):
    """Pads and cuts the arrays of a backend. It traces and compiles nothing."""

    def aval_key(self, leaf: Any) -> Hashable | None:
        """Return a key that decides the aval of a leaf, cheaper than the aval; None if unknown."""
        ...

    def problem(self, leaf: Any) -> tuple[str, str, str] | None:
        """Return (expected, found, remedy) if a leaf cannot be padded, else None."""
        ...

    def pad(self, leaf: Any, enlarge: Callable[[Any], Any], fills: Fills) -> Any:
        """Return a leaf padded as `fills` says; `enlarge` does so with a numpy array."""
        ...

    def cut(self, array: Any, shape: tuple[int, ...], fills: Fills) -> Any:
        """Return the first part of a result on each axis; `fills` are of results that stay."""
        ...


class Fallback(Protocol):
    """What one function does where no executable runs."""

    def call_source(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the Python source; NotTransformable if it cannot be imported."""
        ...

    def run(
        self, policy: str, error: NoExecutable, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Obey the policy `portable` or `jit`; raise `error`, with reasons added, if it fails."""
        ...

    def serving(self, call: Call, host: Host) -> list[str]:
        """Return the policies that would serve a call which no executable serves."""
        ...


class CallWrap(Protocol):
    """A wrap of `format.wrap` as calls use it."""

    def split(self, values: tuple[Any, ...], statics: str) -> tuple[Key, list[Any], list[Any]]:
        """Return the key of a call, its arrays, and its units: the arrays and what holds them.

        `values` are the arguments in canonical order, `statics` the text of the static ones.
        """
        ...

    def join(self, key: Key, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values of a call, with markers."""
        ...

    def finish(self, outputs: Any, units: Sequence[Any], values: Sequence[Any]) -> Any:
        """Return the result of a call; write what it changed into the units, if the wrap does."""
        ...


class Backend(Leaves, Protocol):
    """One way to call executables. `arrays` is its name, as in `load(arrays=…)`.

    `keeps_results` says that all results stay on the device anyway.
    """

    arrays: str
    keeps_results: bool

    @property
    def executable_loader(self) -> ExecutableLoader: ...

    @property
    def padding(self) -> PaddedArrays: ...

    def has_tracers(self, values: Sequence[Any]) -> bool:
        """Return whether one of some trees holds a tracer of a JAX transformation."""
        ...

    def dispatch(
        self,
        name: str,
        source: Callable[..., Any],
        miss: Callable[..., Any],
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
    ) -> Callable[..., Any]:
        """Return the C++ dispatch of a function, which calls `miss` on a cache miss.

        `miss(*args, **kwargs)` returns (outputs, fastpath data or None, False). `source` is called
        under `jax.disable_jit`.
        """
        ...

    def wrap(self, function: Function) -> CallWrap:
        """Return the wrap of a function that has one; AotbuildError if this backend has none."""
        ...

    def settings(self) -> Callable[[], AbstractContextManager[None]]:
        """Return a context manager that gives another thread this thread's relevant settings."""
        ...

    def probe(self, devices: DeviceSet) -> Host:
        """Return the host's facts for some devices."""
        ...

    def default_devices(self) -> DeviceSet:
        """Return the devices for a call that does not say where to run."""
        ...

    def devices_on(self, where: Any) -> DeviceSet:
        """Return the devices that `Library.on(where)` names; AotbuildError if it names none."""
        ...

    def devices_of_call(self, call: Call) -> DeviceSet:
        """Return the devices that a call may use, judged by its arguments."""
        ...

    def placement_of_call(self, call: Call, record: Record, devices: DeviceSet) -> Any:
        """Return where a call of a record runs; InvalidArgument if an argument prevents it."""
        ...

    def default_placement(self, record: Record, devices: DeviceSet) -> Any:
        """Return where a record runs for a call without committed arguments."""
        ...

    def put_tree(self, tree: Any, devices: DeviceSet | None) -> Any:
        """Return a tree whose arrays calls on these devices, or on any, take without a copy."""
        ...

    def fallback(
        self,
        package: OpenPackage,
        function: Function,
        source: Callable[..., Any] | None,
        devices: DeviceSet | None,
    ) -> Fallback:
        """Return the fallback of a function; `devices` are those that the caller chose, if any."""
        ...
