"""The numpy door: numpy's arrays in and out, devices of its own, no transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

from aotbuild.errors import NotTransformable
from aotbuild.runtime import forked, jaxlib_private
from aotbuild.runtime.jaxfree import client, host, values
from aotbuild.runtime.jaxfree.engine import NumpyEngine, NumpyPlacement
from aotbuild.runtime.jaxfree.padding import NumpyPadding
from aotbuild.runtime.jaxfree.trees import NumpyTrees
from aotbuild.runtime.policy import policy_of
from aotbuild.runtime.scope import Scope, devices_for
from aotbuild.spec.aval import Aval
from aotbuild.spec.function import Function
from aotbuild.spec.record import Record

if TYPE_CHECKING:
    from aotbuild.runtime.arguments import Call
    from aotbuild.runtime.kernel import Package


class NumpyDoor:
    """See `runtime.door.Door`."""

    arrays = "numpy"
    convert = "numpy.asarray"

    def __init__(self) -> None:
        forked.watch(client.has_client)
        self.trees = NumpyTrees()
        self.engine = NumpyEngine(self.trees)
        self.padding = NumpyPadding()
        self.probe = host.probe
        # Of numpy's and ours, none is a thread's own.
        self.settings = lambda: nullcontext
        self.scope = client.default_scope
        self.scope_on = client.scope_on

    def aval_of(self, value: Any) -> Aval:
        """Return the aval of a leaf; NotAnArray if it is none that an executable takes."""
        return values.aval_of(value, x64=host.x64())

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
        jaxlib_private.ensure_states(host.x64())
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
