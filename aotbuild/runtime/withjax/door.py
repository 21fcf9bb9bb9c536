"""The jax door: jax's arrays in and out, its devices, its transformations and fallbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax

from aotbuild.errors import NoExecutable, NotTransformable
from aotbuild.runtime import arguments, forked, host, jax_private
from aotbuild.runtime.policy import policy_of
from aotbuild.runtime.scope import Scope
from aotbuild.runtime.source import Source
from aotbuild.runtime.stats import Stats
from aotbuild.runtime.trees import restore_outputs
from aotbuild.runtime.withjax import devices, placement
from aotbuild.runtime.withjax.engine import JaxEngine
from aotbuild.runtime.withjax.fallback import Portable, import_source, jitted
from aotbuild.runtime.withjax.padding import JaxPadding
from aotbuild.spec.function import Function
from aotbuild.spec.record import Record

if TYPE_CHECKING:
    from aotbuild.runtime.kernel import Package

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
    """See `runtime.door.Door`."""

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
