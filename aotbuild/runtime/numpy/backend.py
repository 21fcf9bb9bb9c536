"""The numpy backend: numpy arrays in and out, devices of its own, no transformations."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from aotbuild.errors import AotbuildError, NoExecutable, NotTransformable
from aotbuild.format.aval import Aval, NotAnArray
from aotbuild.format.dtypes import NARROWED
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.target import HOST, is_count
from aotbuild.platforms.base import Host, client_part, names, platform_of, plugged
from aotbuild.runtime.binding import Call, leaf_paths
from aotbuild.runtime.concurrency import SingleFlight, refuse_if_forked, watch_forks
from aotbuild.runtime.devices import DeviceSet, devices_for, devices_like, host_of
from aotbuild.runtime.numpy import private
from aotbuild.runtime.numpy.arrays import (
    DeviceArray,
    PaddedArray,
    check_devices,
    device_of,
    first_device,
    kept_padded,
    put,
)
from aotbuild.runtime.numpy.executables import NumpyExecutableLoader, NumpyPlacement
from aotbuild.runtime.numpy.trees import NumpyTrees

if TYPE_CHECKING:
    from aotbuild.format.padding import Fills
    from aotbuild.runtime.backend import OpenPackage

# One client of each platform for the whole process, separate from jax's own.
_CLIENTS: SingleFlight[Any] = SingleFlight()
_X64_VARIABLE = "JAX_ENABLE_X64"
_DEVICES_VARIABLE = "JAX_NUM_CPU_DEVICES"
# As jax reads it (jax._src.config.bool_env).
_YES, _NO = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")
_PYTHON_NUMBERS = {int: "int64", float: "float64", complex: "complex128"}


class NumpyBackend:
    """See `runtime.backend.Backend`."""

    arrays = "numpy"
    keeps_results = False

    def __init__(self) -> None:
        watch_forks(clients)
        self.trees = NumpyTrees()
        self.executable_loader = NumpyExecutableLoader(self.trees)
        self.padding = NumpyPaddedArrays()
        self.probe = probe
        self.settings = settings
        self.default_devices = default_devices
        self.devices_on = devices_on

    def aval_of(self, value: Any) -> Aval:
        """Return the aval of a leaf; NotAnArray if no executable takes such a value."""
        return aval_of(value, x64=x64())

    def remedy(self, value: Any) -> str:
        """Return what to do about a leaf that has no aval."""
        from aotbuild.runtime.trees import byte_order_remedy

        if words := byte_order_remedy(value):
            return words
        convert = "Convert it with numpy.asarray, or declare the parameter static in the manifest."
        if str(type(value).__module__).partition(".")[0] in ("builtins", "numpy", "jax", "jaxlib"):
            return convert
        return (
            "If its type is registered with jax as a pytree: numpy's backend doesn't know such "
            'types. Load the package with arrays="jax", or compile the function with a dict or a '
            f"namedtuple instead.\n{convert}"
        )

    def has_tracers(self, _: Sequence[Any]) -> bool:
        """Return False: a tracer is refused like any other value that is not a numpy array."""
        return False

    def dispatch(
        self,
        name: str,
        source: Callable[..., Any],
        miss: Callable[..., Any],
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
    ) -> Callable[..., Any]:
        """Return the C++ dispatch of a function, which calls `miss` on a cache miss."""
        private.ensure_states(x64())
        options = (static_argnums, static_argnames, self.trees.dispatch_registry)
        made: Callable[..., Any] = private.make_dispatch(name, source, miss, *options)
        return made

    def wrap(self, function: Function) -> NoReturn:
        """Refuse a wrapped function: the objects that its callers pass hold jax's arrays."""
        msg = (
            f"{function.name}: it takes the objects that {function.wrap} takes, which hold jax's "
            'arrays\nLoad the package with arrays="jax".'
        )
        raise AotbuildError(msg)

    def devices_of_call(self, call: Call) -> DeviceSet:
        """Return the devices like that of the first array on one, or the default ones."""
        device = first_device(call.leaves)
        return self.default_devices() if device is None else devices_like(device)

    def placement_of_call(self, call: Call, record: Record, devices: DeviceSet) -> NumpyPlacement:
        """Return where a call of a record runs; InvalidArgument for an array that is elsewhere."""
        placement = NumpyPlacement(devices_for(record.requires, devices))
        check_devices(call, placement.devices[0], lambda: leaf_paths(call.bound, self.trees))
        return placement

    def put_tree(self, tree: Any, devices: DeviceSet | None) -> Any:
        """Return a tree whose arrays calls take without a copy."""
        from aotbuild.runtime.numpy.placing import placed  # no cold call needs it

        def device() -> Any:
            # Not before an array needs it: a process that has devices cannot fork.
            refuse_if_forked("place()")
            return (devices or self.default_devices()).first

        platform = devices.platform if devices else default_platform()
        return placed(tree, self, platform, device)

    def default_placement(self, record: Record, devices: DeviceSet) -> NumpyPlacement:
        """Return where a record runs."""
        return NumpyPlacement(devices_for(record.requires, devices))

    def fallback(
        self,
        _package: OpenPackage,
        function: Function,
        _source: Callable[..., Any] | None,
        _devices: DeviceSet | None,
    ) -> NumpyFallback:
        """Return the fallback of a function."""
        return NumpyFallback(function)


class NumpyFallback:
    """No fallback: each of them needs jax."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def call_source(self, /, *_: Any, **__: Any) -> NoReturn:
        """Raise NotTransformable; called if a process that has jax enters jax.disable_jit."""
        name, call = self._function.name, self._function.call
        raise NotTransformable(name, call, 'load(…, arrays="numpy") calls executables only')

    def run(
        self, policy: str, error: NoExecutable, _args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> NoReturn:
        """Raise `error`, and add why the policy does not help."""
        why = f'fallback {policy}: it needs jax, and load(…, arrays="jax")'
        raise type(error)(error.function, error.summary, [*error.trace, why], error.remedy)

    def serving(self, _call: Call, _host: Host) -> list[str]:
        """Return that no policy would."""
        return []


class NumpyPaddedArrays:
    """See `runtime.backend.PaddedArrays`."""

    def aval_key(self, leaf: Any) -> Hashable | None:
        """Return what decides the aval of a leaf; for numpy arrays and numbers, x64 does too."""
        kind = type(leaf)
        if isinstance(leaf, DeviceArray):
            return (kind, leaf.shape, leaf.dtype)
        if isinstance(leaf, np.ndarray | np.generic):
            return (kind, leaf.shape, leaf.dtype, x64())
        # No key for an int: whether it is an array depends on whether its value fits the dtype.
        return (kind, x64()) if kind in (bool, float, complex) else None

    def problem(self, leaf: Any) -> tuple[str, str, str] | None:
        """Return (expected, found, remedy) of an array that was donated, else None."""
        if isinstance(leaf, DeviceArray) and leaf.is_deleted():
            return "an array", "a deleted array", "Use the result of the call that it was given to."
        return None

    def pad(self, leaf: Any, enlarge: Callable[[Any], Any], fills: Fills) -> Any:
        """Return a padded leaf; one that stayed on its device as it should be padded is taken."""
        if isinstance(leaf, PaddedArray) and leaf.fills == fills:
            return leaf.whole()
        return enlarge(np.asarray(leaf))

    def cut(self, array: Any, shape: tuple[int, ...], fills: Fills) -> Any:
        """Return the first part of a result on each axis: a view, or padded if it stays.

        One that stays is cut on a GPU, and if its dtype does not hold the padding: by the host.
        """
        if isinstance(array, DeviceArray) and (padded := kept_padded(array, shape, fills)):
            return padded
        kept = np.asarray(array)[tuple(map(slice, shape))]
        return put(kept.copy(), device_of(array)) if isinstance(array, DeviceArray) else kept


# --- avals --------------------------------------------------------------------------------------


def aval_of(value: Any, *, x64: bool) -> Aval:
    """Return the aval that jit would give a value; NotAnArray if jit would refuse it."""
    if isinstance(value, DeviceArray):
        return Aval(value.shape, str(value.dtype))
    if isinstance(value, np.ndarray | np.generic):
        return _aval_of_numpy(value, x64)
    if isinstance(value, bool):
        return Aval((), "bool")
    for kind, dtype in _PYTHON_NUMBERS.items():
        if isinstance(value, kind):
            name = dtype if x64 else NARROWED[dtype]
            _check_fits(value, name)
            return Aval((), name, weak_type=True)
    raise NotAnArray(value)


def _aval_of_numpy(value: Any, x64: bool) -> Aval:
    dtype = str(value.dtype)
    # `np.ma` would import it, which takes 8 ms; nothing is masked while it is not imported. While
    # another thread imports it, the module exists without its class.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(value, masked):
        raise NotAnArray(value, "it is masked; use its filled()")
    aval = Aval(value.shape, dtype if x64 else NARROWED.get(dtype, dtype))
    try:
        str(aval)
    except KeyError:
        raise NotAnArray(value, f"its dtype is {dtype}") from None
    return aval


def _check_fits(value: Any, dtype: str) -> None:
    if dtype not in ("int32", "int64"):
        return
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise NotAnArray(value, f"{value} is too large for {dtype}")


# --- devices ------------------------------------------------------------------------------------


def client_of(platform: str) -> Any:
    """Return the client of a platform; there is one for the whole process."""
    make = _make_host if platform == HOST else lambda: client_part(platform).make(private)
    return _CLIENTS.get(platform, make)


def clients() -> list[Any]:
    """Return the clients of all platforms; takes no lock."""
    return _CLIENTS.values()


def default_devices() -> DeviceSet:
    """Return the devices for a call that does not say where to run."""
    return devices_like(client_of(default_platform()).local_devices()[0])


def default_platform() -> str:
    """Return the platform that jit would use: the first of JAX_PLATFORMS, a GPU, or the CPU."""
    asked = [name for name in os.environ.get("JAX_PLATFORMS", "").split(",") if name]
    if asked[:1] == [HOST]:
        return HOST
    known = platform_names() if asked else {}
    found = [known[name] for name in asked if name in known]
    if found:
        return found[0]
    if asked:
        expected = f'one of {", ".join(known)} (arrays="numpy" knows no other)'
        msg = f"JAX_PLATFORMS\n  expected {expected}\n  found    {','.join(asked)}"
        raise AotbuildError(msg)
    return platform_unasked()


@cache
def platform_unasked() -> str:
    """Return the platform that jit would use if JAX_PLATFORMS named none: a GPU, or the CPU.

    Kept, because what is installed stays. `find_spec` takes Python's import lock, and a signal
    handler that raises there leaves it taken for ever; calls should not risk that each time.
    """
    return next((name for name in plugged() if client_part(name).is_default()), HOST)


def platform_names() -> dict[str, str]:
    """Return the platforms that this backend can use, by all their names in jax."""
    others = {n: name for name in names("client") for n in (name, *client_part(name).aliases)}
    return {HOST: HOST, **others}


def devices_on(where: Any) -> DeviceSet:
    """Return a device by its name, as `cpu`, `cuda` or `cuda:1`; AotbuildError if there is none."""
    platform, _, number = str(where).partition(":")
    known = platform_names().get(platform) if isinstance(where, str) else None
    known = known if is_count(number) or number in ("", "0") else None
    devices = client_of(known).local_devices() if known else []
    index = int(number or 0) if known else 0
    if not index < len(devices):
        found = f"{where!r}; this process has {len(devices)}" if known else repr(where)
        expected = "the name of a device, as 'cpu', 'cuda' or 'cuda:1'"
        msg = f"on(…)\n  expected {expected}\n  found    {found}"
        raise AotbuildError(msg)
    device = devices[index]
    return DeviceSet(platform_of(device), device, (device,), (device,), named=True)


def _make_host() -> Any:
    # As jax.config.jax_num_cpu_devices reads it; XLA_FLAGS are read by XLA itself.
    number = os.environ.get(_DEVICES_VARIABLE, "")
    if not is_count(number) and number not in ("", "-1"):
        expected = "a whole number from 1 to 999,999, or -1 for XLA's own"
        msg = f"the environment variable {_DEVICES_VARIABLE}: expected {expected}, found {number!r}"
        raise AotbuildError(msg)
    return private.make_host_client(int(number) if is_count(number) else None)


# --- the host -----------------------------------------------------------------------------------


def settings() -> Callable[[], AbstractContextManager[None]]:
    """Return what gives another thread this thread's 64-bit mode; nothing does without jax."""
    enable = getattr(sys.modules.get("jax"), "enable_x64", None)
    return nullcontext if enable is None else partial(enable, x64())


def x64() -> bool:
    """Return jax's setting if jax is imported, else what JAX_ENABLE_X64 said at first.

    C++ keeps what it was given with the first dispatch, so a later change of the variable counts
    neither there nor here: half of a call would obey it.
    """
    config: Any = getattr(sys.modules.get("jax"), "config", None)
    if config is not None:
        return bool(config.jax_enable_x64)
    kept = private.x64_state()
    if kept is not None:
        return kept
    value = os.environ.get(_X64_VARIABLE, "0").lower()
    if value not in _YES + _NO:
        msg = f"the environment variable {_X64_VARIABLE}: expected 0 or 1, found {value!r}"
        raise AotbuildError(msg)
    return value in _YES


def probe(devices: DeviceSet) -> Host:
    """Return the host's facts for some devices."""
    return host_of(
        devices,
        arrays="numpy",
        process_count=1,
        x64=x64(),
        custom_calls=private.custom_call_targets(devices.platform),
    )
