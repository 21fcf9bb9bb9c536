"""The numpy door: numpy's arrays in and out, devices of its own, no transformations."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from aotbuild.errors import AotbuildError, NotTransformable
from aotbuild.runtime import forked
from aotbuild.runtime.backends.numpy import client
from aotbuild.runtime.backends.numpy import private as jaxlib_private
from aotbuild.runtime.backends.numpy.executables import NumpyEngine, NumpyPlacement
from aotbuild.runtime.backends.numpy.trees import NumpyTrees
from aotbuild.runtime.devices import Scope, devices_for
from aotbuild.runtime.host import Host, host_of
from aotbuild.runtime.policy import policy_of
from aotbuild.spec.aval import Aval, NotAnArray
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function

if TYPE_CHECKING:
    from aotbuild.runtime.binding import Call
    from aotbuild.runtime.kernel import Package
    from aotbuild.runtime.padding import Step


class NumpyPadding:
    """See `runtime.backends.protocol.PaddedArrays`."""

    def fact(self, leaf: Any) -> Hashable | None:
        """Return what of a leaf decides its aval."""
        if isinstance(leaf, np.ndarray | np.generic):
            return (type(leaf), leaf.shape, leaf.dtype)
        # A Python int that is too large for its dtype is no array, so it is looked at each time.
        kind = type(leaf)
        return (kind,) if kind in (bool, float, complex) else None

    def problem(self, _: Any) -> tuple[str, str, str] | None:
        """Return None: every numpy array can be padded."""
        return None

    def pad(self, step: Step, index: int, leaf: Any) -> Any:
        """Return a leaf padded."""
        return step.pad(index, np.asarray(leaf))

    def cut(self, array: Any, shape: tuple[int, ...]) -> Any:
        """Return the beginning of a result: a view, no copy."""
        return array[tuple(map(slice, shape))]


class NumpyDoor:
    """See `runtime.backends.protocol.Door`."""

    arrays = "numpy"
    convert = "numpy.asarray"

    def __init__(self) -> None:
        forked.watch(client.has_client)
        self.trees = NumpyTrees()
        self.engine = NumpyEngine(self.trees)
        self.padding = NumpyPadding()
        self.probe = probe
        # Of numpy's and ours, none is a thread's own.
        self.settings = lambda: nullcontext
        self.scope = client.default_scope
        self.scope_on = client.scope_on

    def aval_of(self, value: Any) -> Aval:
        """Return the aval of a leaf; NotAnArray if it is none that an executable takes."""
        return aval_of(value, x64=x64())

    def is_tracer(self, _: Any) -> bool:
        """Return False: a tracer is refused as any other value that is no numpy array."""
        return False

    def dispatch(
        self,
        name: str,
        source: Callable[..., Any],
        miss: Callable[..., Any],
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
    ) -> Callable[..., Any]:
        """Return the C++ cache of a function, with `miss` behind it."""
        jaxlib_private.ensure_states(x64())
        return jaxlib_private.make_dispatch(
            name, source, miss, static_argnums, static_argnames, self.trees.registry
        )

    def scope_of_call(self, _: Call) -> Scope:
        """Return what a call may use: numpy arrays are on no device."""
        return self.scope()

    def place(self, _: Call, record: Record, scope: Scope) -> NumpyPlacement:
        """Return where a call of a record runs."""
        return self.place_alone(record, scope)

    def place_alone(self, record: Record, scope: Scope) -> NumpyPlacement:
        """Return where a record runs."""
        return NumpyPlacement(devices_for(record.requires, scope))

    def fallback(
        self,
        package: Package,
        function: Function,
        _source: Callable[..., Any] | None,
        _scope: Scope | None,
    ) -> NumpyFallback:
        """Return what a function does where no executable runs."""
        return NumpyFallback(package, function)


class NumpyFallback:
    """Nothing: all that could be done instead needs jax."""

    def __init__(self, package: Package, function: Function) -> None:
        self._package = package
        self._function = function

    def call_source(self, *_: Any, **__: Any) -> NoReturn:
        """Raise NotTransformable: somebody who has jax wants the source under jax.disable_jit."""
        name, call = self._function.name, self._function.call
        raise NotTransformable(name, call, 'load(…, arrays="numpy") calls executables only')

    def fall_back(self, error: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> NoReturn:
        """Raise `error`, and say why the policy is of no use."""
        policy = policy_of(self._package.fallback)
        if policy == "none":
            raise error
        why = f'fallback {policy}: it needs jax, and load(…, arrays="jax")'
        raise type(error)(error.function, error.summary, [*error.trace, why], error.remedy)


# What jax makes of 64-bit types without jax_enable_x64 (jax._src.dtypes.canonicalize_dtype).
_SQUASHED = {
    "int64": "int32",
    "uint64": "uint32",
    "float64": "float32",
    "complex128": "complex64",
}
_PYTHON = {int: "int64", float: "float64", complex: "complex128"}


def aval_of(value: Any, *, x64: bool) -> Aval:
    """Return the aval that jit would give a value; NotAnArray if it would take none."""
    if isinstance(value, np.ndarray | np.generic):
        return _of_numpy(value, x64)
    if isinstance(value, bool):
        return Aval((), "bool")
    for kind, dtype in _PYTHON.items():
        if isinstance(value, kind):
            name = dtype if x64 else _SQUASHED[dtype]
            _check_fits(value, name)
            return Aval((), name, weak_type=True)
    raise NotAnArray(value)


def _of_numpy(value: Any, x64: bool) -> Aval:
    dtype = str(value.dtype)
    # Not np.ma: naming it imports it, for 8 ms of a start; without it nothing is masked.
    # While another thread imports it, it is there without its class.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(value, masked):
        raise NotAnArray(value, "it is masked; use its filled()")
    aval = Aval(value.shape, dtype if x64 else _SQUASHED.get(dtype, dtype))
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


_VARIABLE = "JAX_ENABLE_X64"
# As jax reads it (jax._src.config.bool_env).
_YES, _NO = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def x64() -> bool:
    """Return what jax's own setting is if jax is imported, else what JAX_ENABLE_X64 says."""
    config: Any = getattr(sys.modules.get("jax"), "config", None)
    if config is not None:
        return bool(config.jax_enable_x64)
    value = os.environ.get(_VARIABLE, "0").lower()
    if value not in _YES + _NO:
        msg = f"the environment variable {_VARIABLE}: expected 0 or 1, found {value!r}"
        raise AotbuildError(msg)
    return value in _YES


def probe(scope: Scope) -> Host:
    """Return the facts of some devices. Imports numpy and jaxlib."""
    facts: dict[str, Any] = {}
    if scope.platform == "cuda":
        from aotbuild.runtime.backends.numpy import cuda

        found = cuda.versions()
        facts = {"cuda": found.runtime, "driver": found.driver, "cudnn": found.cudnn}
    return host_of(
        scope,
        arrays="numpy",
        process_count=1,
        x64=x64(),
        custom_calls=jaxlib_private.custom_call_targets(scope.platform),
        lapack=jaxlib_private.has_lapack(),
        **facts,
    )
