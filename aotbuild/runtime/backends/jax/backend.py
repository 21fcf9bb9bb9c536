"""The jax door: jax's arrays in and out, its devices, its transformations and fallbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from aotbuild.errors import NoExecutable, NotTransformable
from aotbuild.runtime import binding as arguments
from aotbuild.runtime import forked, host
from aotbuild.runtime.backends.jax import placement
from aotbuild.runtime.backends.jax import placement as devices
from aotbuild.runtime.backends.jax import private as jax_private
from aotbuild.runtime.backends.jax.executables import JaxEngine
from aotbuild.runtime.backends.jax.fallback import Portable, import_source, jitted
from aotbuild.runtime.devices import Scope
from aotbuild.runtime.policy import policy_of
from aotbuild.runtime.source import Source
from aotbuild.runtime.stats import Stats
from aotbuild.runtime.trees import restore_outputs
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function

if TYPE_CHECKING:
    from aotbuild.runtime.kernel import Package
    from aotbuild.runtime.padding import Step


class JaxPadding:
    """See `runtime.backends.protocol.PaddedArrays`."""

    def fact(self, leaf: Any) -> Hashable | None:
        """Return what of a leaf decides its aval; numpy's and Python's also depend on x64."""
        kind = type(leaf)
        if isinstance(leaf, jax.Array):
            return (kind, leaf.shape, leaf.dtype, leaf.weak_type)
        if isinstance(leaf, np.ndarray | np.generic):
            return (kind, leaf.shape, leaf.dtype, jax.config.jax_enable_x64)
        return (kind, jax.config.jax_enable_x64) if kind in _NUMBERS else None

    def problem(self, leaf: Any) -> tuple[str, str, str] | None:
        """Return (expected, found, remedy) of a leaf that the host cannot see."""
        if not isinstance(leaf, jax.Array):
            return None
        if leaf.is_deleted():
            remedy = "It was donated to an earlier call; use that call's result instead."
            return "an array", "a deleted array", remedy
        if not leaf.is_fully_addressable:
            remedy = "Pad it before it is placed, to a size that was compiled."
            return "an array that is all in this process", str(leaf.sharding), remedy
        return None

    def pad(self, step: Step, index: int, leaf: Any) -> Any:
        """Return a leaf padded: where it is if it is committed, else as numpy's."""
        if not isinstance(leaf, jax.Array):
            return step.pad(index, np.asarray(leaf))
        array = step.pad(index, jax_private.host_view(leaf))
        return jax_private.put_like(array, leaf) if leaf.committed or leaf.weak_type else array

    def cut(self, array: Any, shape: tuple[int, ...]) -> Any:
        """Return the beginning of a result, in a memory of its own."""
        kept = jax_private.host_view(array)[tuple(map(slice, shape))]
        return jax_private.put_like(kept, array)


_NUMBERS = (bool, int, float, complex)


_LOG = logging.getLogger("aotbuild")


class JaxTrees:
    """Pytrees as jax has them, with all types that are registered."""

    nodes: frozenset[str] | None = None

    def flatten(self, tree: Any) -> tuple[list[Any], Any]:
        """Return the leaves of a tree and its treedef."""
        leaves, treedef = jax.tree_util.tree_flatten(tree)
        return leaves, treedef

    def paths(self, tree: Any) -> list[tuple[Any, ...]]:
        """Return the key path of each leaf."""
        pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
        return [path for path, _ in pairs]

    def make_treedef(self, node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
        """Return the treedef of a node, or of a leaf."""
        return jax_private.make_treedef(node_data, children)


class JaxDoor:
    """See `runtime.backends.protocol.Door`."""

    arrays = "jax"
    convert = "jax.numpy.asarray"

    def __init__(self, source: Source, stats: Stats) -> None:
        forked.watch(jax_private.has_client)
        self.trees = JaxTrees()
        self.engine = JaxEngine()
        self.padding = JaxPadding()
        self.portable = Portable(source, stats)
        self.aval_of = jax_private.aval_of
        self.dispatch = jax_private.make_dispatch
        self.probe = host.probe
        self.settings = devices.settings
        self.scope = devices.scope_of
        self.scope_on = devices.scope_on
        self.scope_of_call = placement.scope_of_call
        self.place = placement.place
        self.place_alone = placement.place_alone

    def is_tracer(self, value: Any) -> bool:
        """Return whether a leaf belongs to a transformation that is being traced."""
        return isinstance(value, jax_private.Tracer)

    def fallback(
        self,
        package: Package,
        function: Function,
        source: Callable[..., Any] | None,
        scope: Scope | None,
    ) -> JaxFallback:
        """Return what a function does where no executable runs."""
        return JaxFallback(self, package, function, source, scope)


class JaxFallback:
    """The source under jit, or the portable executable compiled here."""

    def __init__(
        self,
        door: JaxDoor,
        package: Package,
        function: Function,
        source: Callable[..., Any] | None,
        scope: Scope | None,
    ) -> None:
        self._door = door
        self._package = package
        self._function = function
        self._source = source
        self._chosen = scope
        self._logged: set[str] = set()

    def call_source(self, *args: Any, **kwargs: Any) -> Any:
        """Call the source under jit; NotTransformable if it cannot be imported."""
        return self._jitted_source(*args, **kwargs)

    def fall_back(self, error: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what the policy says instead of raising `error`, or raise it."""
        policy = policy_of(self._package.fallback)
        if policy == "none":
            raise error
        with jax.default_device(self._chosen.first) if self._chosen else nullcontext():
            if policy == "portable":
                return self._run_portable(error, args, kwargs)
            source = self._source_instead(error)
            self._package.stats.count("fallback.jit")
            return source(*args, **kwargs)

    def _source_instead(self, error: NoExecutable) -> Callable[..., Any]:
        try:
            source = self._jitted_source
        except NotTransformable as err:
            trace = [*error.trace, f"fallback jit: {err.call} is not importable: {err.reason}"]
            raise type(error)(error.function, error.summary, trace, error.remedy) from err
        level = logging.DEBUG if str(error) in self._logged else logging.WARNING
        self._logged.add(str(error))
        _LOG.log(level, "no executable fits, calling the source with jit: %s", error)
        return source

    def _run_portable(self, error: NoExecutable, args: Any, kwargs: Any) -> Any:
        bound = arguments.bind(self._function, args, kwargs)
        call = arguments.flatten(bound, self._door)
        scope = self._chosen or placement.scope_of_call(call)
        host, records = self._package.probe(scope), self._portable_records
        record, outputs = self._door.portable.run(call, records, scope, host, error)
        self._package.stats.count("fallback.portable")
        out_tree = restore_outputs(record, call.treedef, self._door.trees)
        return out_tree.unflatten(outputs)

    @cached_property
    def _portable_records(self) -> list[Record]:
        records = self._package.index.records(self._function.name)
        return [record for record in records if record.target.is_portable]

    @cached_property
    def _jitted_source(self) -> Callable[..., Any]:
        if self._source is None:
            return import_source(self._function)
        return jitted(self._function, self._source)
