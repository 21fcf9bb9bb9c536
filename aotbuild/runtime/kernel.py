"""Kernels: one callable over all executables of a function, dispatched by jit's own C++ cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, InvalidArgument, NoExecutable, SignatureMismatch
from aotbuild.frozen import dataclass
from aotbuild.runtime import binding as arguments
from aotbuild.runtime.binding import Bound, Call
from aotbuild.runtime.devices import Scope
from aotbuild.runtime.host import Host
from aotbuild.runtime.loader import Loader
from aotbuild.runtime.policy import policy_of
from aotbuild.runtime.select import Verdict, select
from aotbuild.runtime.stats import Stats
from aotbuild.runtime.trees import restore, restore_outputs
from aotbuild.runtime.warmup import Ready, example_calls, ready_for, tell
from aotbuild.spec.index import Index
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Door, Placement
    from aotbuild.runtime.padding import Step

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
    door: Door
    loader: Loader
    stats: Stats
    probe: Callable[[Any], Host]
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
        bound = arguments.bind(self.function, args, kwargs)
        call = arguments.flatten(bound, self._dispatch.package.door)
        return call, self._dispatch.judge(call, self._dispatch.step(call))

    def padding(self, call: Call) -> str:
        """Return how a call is padded, as `batch 3 → 8`; empty if it is not."""
        return str(self._dispatch.step(call) or "")

    def prime(self, record: Record, executable: Any, outputs: list[Any]) -> None:
        """Tell the C++ cache the usual calls of a record; `outputs` are what zeros gave."""
        self._dispatch.prime(record, executable, outputs)

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
        self._chosen = scope
        self._told: dict[int, Any] = {}
        self._mismatches: dict[tuple[str, str, bool], SignatureMismatch] = {}
        statics = [static.name for static in function.statics]
        positions = [i for i, name in enumerate(function.positional) if name in statics]
        name, door = function.name, package.door
        self._instead = instead = door.fallback(package, function, source, scope)
        self.plain = door.dispatch(name, instead.call_source, self._miss, positions, statics)
        miss = self._canonical_miss
        self._canonical = door.dispatch(name, instead.call_source, miss, [0], [])
        self._padded = None
        if function.pad:
            from aotbuild.runtime.padding import PaddedCalls

            self._padded = PaddedCalls(package.index, function, door)

    def _miss(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Serve a call: return (outputs, data for the C++ cache or None, False)."""
        if arguments.has_tracers(self.function, args, kwargs, self.package.door):
            self.package.stats.count("transformed")
            return self._instead.call_source(*args, **kwargs), None, False
        try:
            bound = arguments.bind(self.function, args, kwargs)
            step = self._padded.step(bound) if self._padded else None
            if self._padded and step:
                self.package.stats.count("padded")
                return self._padded.run(step, bound, self._canonical), None, False
            if bound.direct:
                return self._run(bound)
            outputs = self._canonical(bound.statics_key, *bound.args, **bound.kwargs)
            return outputs, None, False
        except NoExecutable as error:
            return self._instead.fall_back(error, args, kwargs), None, False

    def _canonical_miss(self, key: str, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        return self._run(arguments.rebind(self.function, key, args, kwargs))

    def _run(self, bound: Bound) -> tuple[Any, Any, bool]:
        ready = ready_for((*bound.args, *bound.kwargs.values()))
        if ready is None:
            self.package.stats.count("misses")
        door = self.package.door
        call = arguments.flatten(bound, door)
        executable = self.package.loader.load(*self.choose(call, self.judge(call)))
        out_tree = restore_outputs(executable.record, call.treedef, door.trees)
        outputs = ready.outputs(executable) if ready else executable.run(call.leaves)
        data = executable.fastpath_data(outputs, out_tree, len(call.leaves))
        return out_tree.unflatten(outputs), data, False

    def prime(self, record: Record, executable: Any, outputs: list[Any]) -> None:
        """Make the usual calls of a record once, without running it again."""
        if id(executable) in self._told:
            return
        self._told[id(executable)] = executable
        ready, examples = Ready(executable, outputs), executable.examples()
        try:
            treedef = restore(record.signature.tree, None, self.package.door.trees)
            calls = example_calls(self.function, record, treedef, examples)
            tell(self.plain, calls, ready)
        except (AotbuildError, ValueError) as err:
            from logging import getLogger

            told = "%s: ran on zeros, but its first call takes the slow way: %s"
            getLogger("aotbuild").debug(told, record, err)

    def step(self, call: Call) -> Step | None:
        """Return how a call is padded, None if it is not."""
        return self._padded.of(call) if self._padded else None

    def judge(self, call: Call, step: Step | None = None) -> tuple[Verdict, ...]:
        """Return the verdicts on the records of a call; SignatureMismatch if it has none."""
        index, name = self.package.index, self.function.name
        host = self.package.probe(self._scope(call))
        records = index.records(name, step.key if step else call.signature.key())
        if not records:
            raise self._mismatch(call, host)
        return select(records, host)

    def _mismatch(self, call: Call, host: Host) -> SignatureMismatch:
        """Return the error of a signature, looked for among all records only once."""
        from aotbuild.runtime.mismatch import signature_mismatch

        key = (call.signature.key(), host.platform, host.x64)
        if key not in self._mismatches:
            if len(self._mismatches) >= _MISMATCHES_KEPT:
                self._mismatches.clear()
            self._mismatches[key] = signature_mismatch(call, self.package.index, host)
        known = self._mismatches[key]
        padding = self._padded.why_not(call) if self._padded else []
        trace = [*known.trace, *padding, *self.package.absent]
        return SignatureMismatch(known.function, known.summary, trace, known.remedy)

    def choose(self, call: Call, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, Placement]:
        """Return the best verdict that fits, and where its executable runs this call."""
        fitting = [verdict for verdict in verdicts if verdict.fits]
        if not fitting:
            from aotbuild.runtime.select import refusal_trace

            summary = "no executable may run here"
            trace = refusal_trace(verdicts, self.package.probe(self._scope(call)))
            trace += self.package.absent
            raise NoExecutable(self.function.name, summary, trace, _REFUSED_REMEDY)
        return fitting[0], self._place(call, fitting[0])

    def _place(self, call: Call, verdict: Verdict) -> Placement:
        try:
            placement: Placement = self.package.door.place(call, verdict.record, self._scope(call))
            return placement
        except InvalidArgument as err:
            if policy_of(self.package.fallback) == "none":
                raise
            summary = "the arguments are placed where no executable runs"
            trace = str(err).splitlines()
            raise NoExecutable(self.function.name, summary, trace, _REFUSED_REMEDY) from err

    def _scope(self, call: Call) -> Scope:
        return self._chosen or self.package.door.scope_of_call(call)
