"""Kernels: one callable over all executables of a function, dispatched by jit's own C++ cache."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from aotbuild.errors import InvalidArgument, NoExecutable, NotTransformable, SignatureMismatch
from aotbuild.runtime import arguments, fallback, jax_private, placement
from aotbuild.runtime.arguments import Bound, Call
from aotbuild.runtime.devices import Scope
from aotbuild.runtime.host import Host
from aotbuild.runtime.loader import Loader
from aotbuild.runtime.mismatch import signature_mismatch
from aotbuild.runtime.policy import policy_of
from aotbuild.runtime.refusals import refusal_trace
from aotbuild.runtime.select import Verdict, select
from aotbuild.runtime.stats import Stats
from aotbuild.runtime.trees import restore_outputs
from aotbuild.spec.function import Function
from aotbuild.spec.index import Index
from aotbuild.spec.record import Record

_LOG = logging.getLogger("aotbuild")
_MISMATCHES_KEPT = 1024
_REFUSED_REMEDY = (
    "Change what a reason names, install a wheel that was built for this host, or set "
    "AOTBUILD_FALLBACK=portable or =jit."
)


@dataclass(frozen=True)
class Package:
    """What the kernels of one library share; `absent` says which executables are not installed."""

    name: str
    index: Index
    loader: Loader
    portable: fallback.Portable
    stats: Stats
    probe: Callable[[Scope], Host]
    fallback: str | None
    absent: tuple[str, ...] = ()


class Kernel:
    """A precompiled function: called like the original, with arrays and static values.

    `scope` says where it runs if a caller chose that; `source` is what it falls back to.
    The call itself is a C++ function in the slot `__call__`, so that Python adds nothing to it.
    """

    __slots__ = ("__call__", "__weakref__", "_dispatch", "function")

    def __init__(
        self,
        package: Package,
        function: Function,
        source: Callable[..., Any] | None = None,
        scope: Scope | None = None,
    ) -> None:
        self.function = function
        self._dispatch = Dispatch(package, function, source, scope)
        self.__call__ = self._dispatch.plain

    def __repr__(self) -> str:
        return f"<aotbuild.Kernel {self._dispatch.package.name}:{self.function.name}>"

    @property
    def __name__(self) -> str:
        return self.function.name

    @property
    def records(self) -> tuple[Record, ...]:
        """Every record of this function; reads all of them from the index."""
        return tuple(self._dispatch.package.index.records(self.function.name))

    def judge(self, *args: Any, **kwargs: Any) -> tuple[Call, tuple[Verdict, ...]]:
        """Return a call and the verdicts on the records of its signature; runs nothing."""
        call = arguments.flatten(arguments.bind(self.function, args, kwargs))
        return call, self._dispatch.judge(call)

    def choose(self, call: Call, verdicts: tuple[Verdict, ...]) -> Record:
        """Return the record that would run a call; NoExecutable or InvalidArgument if none may."""
        verdict, _ = self._dispatch.choose(call, verdicts)
        return verdict.record


class Dispatch:
    """The way of a call that the C++ cache does not know yet."""

    def __init__(
        self,
        package: Package,
        function: Function,
        source: Callable[..., Any] | None,
        scope: Scope | None,
    ) -> None:
        self.package = package
        self.function = function
        self._source = source
        self._chosen = scope
        self._logged: set[str] = set()
        self._mismatches: dict[tuple[str, str, bool], SignatureMismatch] = {}
        statics = [static.name for static in function.statics]
        positions = [i for i, name in enumerate(function.positional) if name in statics]
        name = function.name
        make = jax_private.make_dispatch
        self.plain = make(name, self._call_source, self._miss, positions, statics)
        self._canonical = make(name, self._call_source, self._canonical_miss, [0], [])

    def _miss(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Serve a call: return (outputs, data for the C++ cache or None, False)."""
        if arguments.has_tracers(self.function, args, kwargs):
            self.package.stats.count("transformed")
            return self._call_source(*args, **kwargs), None, False
        try:
            bound = arguments.bind(self.function, args, kwargs)
            if bound.direct:
                return self._run(bound)
            outputs = self._canonical(bound.statics_key, *bound.args, **bound.kwargs)
            return outputs, None, False
        except NoExecutable as error:
            return self._fall_back(error, args, kwargs), None, False

    def _canonical_miss(self, key: str, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        return self._run(arguments.rebind(self.function, key, args, kwargs))

    def _run(self, bound: Bound) -> tuple[Any, Any, bool]:
        self.package.stats.count("misses")
        call = arguments.flatten(bound)
        executable = self.package.loader.load(*self.choose(call, self.judge(call)))
        out_tree = restore_outputs(executable.record, call.treedef)
        outputs = executable.run(call.leaves)
        data = executable.fastpath_data(outputs, out_tree, len(call.leaves))
        return jax.tree_util.tree_unflatten(out_tree, outputs), data, False

    def judge(self, call: Call) -> tuple[Verdict, ...]:
        """Return the verdicts on the records of a call; SignatureMismatch if it has none."""
        index, name = self.package.index, self.function.name
        host = self.package.probe(self._scope(call))
        records = index.records(name, call.signature.key())
        if not records:
            raise self._mismatch(call, host)
        return select(records, host)

    def _mismatch(self, call: Call, host: Host) -> SignatureMismatch:
        """Return the error of a signature, looked for among all records only once."""
        key = (call.signature.key(), host.platform, host.x64)
        if key not in self._mismatches:
            if len(self._mismatches) >= _MISMATCHES_KEPT:
                self._mismatches.clear()
            records = self.package.index.records(self.function.name)
            self._mismatches[key] = signature_mismatch(call, records, host)
        known = self._mismatches[key]
        trace = [*known.trace, *self.package.absent]
        return SignatureMismatch(known.function, known.summary, trace, known.remedy)

    def choose(
        self, call: Call, verdicts: tuple[Verdict, ...]
    ) -> tuple[Verdict, placement.Placement]:
        """Return the best verdict that fits, and where its executable runs this call."""
        fitting = [verdict for verdict in verdicts if verdict.fits]
        if not fitting:
            summary = "no executable may run here"
            trace = refusal_trace(verdicts, self.package.probe(self._scope(call)))
            trace += self.package.absent
            raise NoExecutable(self.function.name, summary, trace, _REFUSED_REMEDY)
        return fitting[0], self._place(call, fitting[0])

    def _place(self, call: Call, verdict: Verdict) -> placement.Placement:
        try:
            return placement.place(call, verdict.record, self._scope(call))
        except InvalidArgument as err:
            if policy_of(self.package.fallback) == "none":
                raise
            summary = "the arguments are placed where no executable runs"
            trace = str(err).splitlines()
            raise NoExecutable(self.function.name, summary, trace, _REFUSED_REMEDY) from err

    def _scope(self, call: Call) -> Scope:
        return self._chosen or placement.scope_of_call(call)

    # --- without an executable ------------------------------------------------------------------

    def _fall_back(self, error: NoExecutable, args: Any, kwargs: Any) -> Any:
        policy = policy_of(self.package.fallback)
        if policy == "none":
            raise error
        with jax.default_device(self._chosen.first) if self._chosen else nullcontext():
            if policy == "portable":
                return self._run_portable(error, args, kwargs)
            source = self._source_instead(error)
            self.package.stats.count("fallback.jit")
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
        call = arguments.flatten(arguments.bind(self.function, args, kwargs))
        scope = self._scope(call)
        host, records = self.package.probe(scope), self._portable_records
        record, outputs = self.package.portable.run(call, records, scope, host, error)
        self.package.stats.count("fallback.portable")
        out_tree = restore_outputs(record, call.treedef)
        return jax.tree_util.tree_unflatten(out_tree, outputs)

    @cached_property
    def _portable_records(self) -> list[Record]:
        records = self.package.index.records(self.function.name)
        return [record for record in records if record.target.is_portable]

    def _call_source(self, *args: Any, **kwargs: Any) -> Any:
        return self._jitted_source(*args, **kwargs)

    @cached_property
    def _jitted_source(self) -> Callable[..., Any]:
        if self._source is None:
            return fallback.import_source(self.function)
        return fallback.jitted(self.function, self._source)
