"""Dispatch: the slow path of a call, which enters what it found into jit's own C++ cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import ref

from aotbuild.errors import AotbuildError, NoExecutable
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.platforms.base import platform_of
from aotbuild.runtime.binding import Bound, Call, bind, dynamic_values, rebind
from aotbuild.runtime.choice import Choice
from aotbuild.runtime.concurrency import making
from aotbuild.runtime.devices import DeviceSet, shortage
from aotbuild.runtime.fork import refuse_if_forked
from aotbuild.runtime.loader import Loader
from aotbuild.runtime.observers import listeners, log
from aotbuild.runtime.package import Package
from aotbuild.runtime.trees import (
    flatten,
    not_made,
    restore,
    restore_outputs,
    with_static_values,
)

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Backend, Executable, Fallback, Placement
    from aotbuild.runtime.call_events import CallEvents
    from aotbuild.runtime.keeping import Kept
    from aotbuild.runtime.padding import PadPlan
    from aotbuild.runtime.warmup import ExampleCall

_TRANSFORMED = (
    "%s: called inside a JAX transformation (jit, grad, vmap and the like): its source is traced "
    "and compiled there, and no executable of the package runs; call it outside of the "
    "transformation, or compile a function that has the transformation inside"
)


class Dispatch:
    """The slow path of a call, taken on a miss of the C++ cache.

    There are two caches. `plain` sees calls as they are written. A call that it must not cache, as
    its static values could be confused with others, goes on to `_canonical`, which sees the bound
    arguments, with the static values as one key.
    """

    def __init__(
        self,
        package: Package,
        backend: Backend,
        loader: Loader,
        function: Function,
        source: Callable[..., Any] | None,
        devices: DeviceSet | None,
        keep: Kept | None = None,
    ) -> None:
        self.package = package
        self.backend = backend
        self.function = function
        self._loader = loader
        self._source = source
        self._chosen = devices
        self._keep = keep
        self._noted: set[str] = set()
        self._primed: dict[int, ref[Executable]] = {}
        self._padded = None
        if function.pad:
            from aotbuild.runtime.padding import PaddedCalls

            self._padded = PaddedCalls(package.index, function, backend)
        self.choice = Choice(package, backend, function, devices, self._padded)
        if package.editable:
            self.plain = self._call_source
            return
        if function.wrap:
            from aotbuild.runtime.wrapped import wrapped_call

            self.plain = wrapped_call(
                *(function, backend, self._on_tracers),
                run=self._run,
                call_source=self._call_source,
                fall_back=self._fall_back,
            )
            return
        self.statics = statics = [static.name for static in function.statics]
        positions = [i for i, name in enumerate(function.positional) if name in statics]
        self.static_positions = positions
        name, call_source = function.name, self._call_source
        self.plain = backend.dispatch(name, call_source, self._miss, positions, statics)
        self._canonical = backend.dispatch(name, call_source, self._canonical_miss, [0], [])

    def _miss(self, /, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Serve a call; return (outputs, fastpath data or None, False) to the C++ cache."""
        if self.backend.has_tracers(dynamic_values(self.function, args, kwargs)):
            self._on_tracers()
            return self._call_source(*args, **kwargs), None, False
        try:
            bound = bind(self.function, args, kwargs)
            plan = self._padded.plan(bound) if self._padded else None
            if self._padded and plan:
                self._on_padding(plan, args, kwargs)
                return self._padded.run(plan, bound, self._canonical), None, False
            if bound.direct:
                return self._run(bound)
            outputs = self._canonical(bound.statics_key, *bound.args, **bound.kwargs)
            return outputs, None, False
        except NoExecutable as error:
            return self._fall_back(error, args, kwargs), None, False

    def _fall_back(self, error: NoExecutable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the fallback policy gives for a call that no executable serves."""
        self.package.stats.count("refused")
        if listeners:
            self._events.refused(error, args, kwargs)
        policy = self.package.fallback_policy
        if policy == "none":
            raise error
        refuse_if_forked(self.function.name)
        start = perf_counter()
        outputs = self._run_fallback(policy, error, args, kwargs)
        if listeners:
            self._events.fell_back(policy, perf_counter() - start, error, args, kwargs)
        return outputs

    def _on_tracers(self) -> None:
        self.package.stats.count("transformed")
        if self.package.fallback_policy == "none" and self._is_first("transformed"):
            name, package = self.function.name, self.package.name
            log("warning", "transformed", _TRANSFORMED % name, package=package, function=name)
        if listeners:
            self._events.transformed()

    def _on_padding(self, plan: PadPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.package.stats.count("padded")
        if listeners:
            self._events.padded(str(plan), args, kwargs)

    @cached_property
    def _events(self) -> CallEvents:
        from aotbuild.runtime.call_events import CallEvents

        return CallEvents(self.backend, self.choice)

    @cached_property
    def _fallback(self) -> Fallback:
        return self.backend.fallback(self.package, self.function, self._source, self._chosen)

    def _run_fallback(self, policy: str, error: NoExecutable, args: Any, kwargs: Any) -> Any:
        return self._fallback.run(policy, error, args, kwargs)

    def _call_source(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._fallback.call_source(*args, **kwargs)

    def _canonical_miss(self, key: str, /, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        return self._run(rebind(self.function, key, args, kwargs))

    def _run(self, bound: Bound) -> tuple[Any, Any, bool]:
        with making():
            return self._run_first(bound)

    def _run_first(self, bound: Bound) -> tuple[Any, Any, bool]:
        warm_up = _active_warm_up((*bound.args, *bound.kwargs.values()))
        if warm_up is None:
            self.package.stats.count("misses")
        call = flatten(bound, self.backend)
        verdict, placement = self.choice.choose(call, self.choice.judge(call))
        executable = self._loader.load(verdict, placement)
        out_tree = restore_outputs(executable.record, call.treedef, self.backend.trees)
        kept = self._keep.leaves(out_tree, self.backend.trees) if self._keep else frozenset[int]()
        if warm_up is None:
            self._count_copies(bound, placement)
            outputs = self._outputs(executable, call, kept, placement.devices[0])
        else:
            outputs = warm_up.outputs(executable)
        try:
            data = executable.fastpath_data(outputs, out_tree, len(call.leaves), kept)
            # The C++ cache keeps a treedef that it makes of this one.
            out_tree = with_static_values(out_tree, self.backend.trees.make_treedef)
            return out_tree.unflatten(outputs), data, False
        except AotbuildError:
            raise
        except (Exception, SystemExit) as err:  # types of nodes run code of their own
            raise not_made(executable.record, err) from err

    def _outputs(
        self, executable: Executable, call: Call, kept: frozenset[int], device: Any
    ) -> list[Any]:
        try:
            return executable.run(call.leaves, kept)
        except Exception as err:  # jaxlib raises RuntimeError, ValueError and its own
            from aotbuild.runtime.donation import donated_twice

            record = executable.record
            twice = donated_twice(err, call, record, self.backend.trees)
            found = twice or shortage(record, device, err)
            if found is None:
                raise
            raise found from err

    def _count_copies(self, bound: Bound, placement: Placement) -> None:
        """Count what a call copies before it runs."""
        values = dict(zip(self.function.dynamic, bound.args, strict=False)) | bound.kwargs
        platform = platform_of(placement.devices[0])
        sizes = self.backend.copied(values, self.function.donate, platform)
        if sizes:
            self._on_copies(sizes, bound.args, bound.kwargs)

    def _on_copies(self, sizes: dict[str, int], args: Any, kwargs: Any) -> None:
        """Count what a call copies; note it once if that is much."""
        from aotbuild.runtime import copies

        total = sum(sizes.values())
        self.package.stats.count("copied_bytes", total)
        if listeners:
            self._events.copied(total, args, kwargs)
        if copies.is_large(sizes) and self._is_first("copied"):
            copies.note(self.package.name, self.function, sizes)

    def looking_once(self, call: Callable[..., Any], done: Callable[[], None]) -> Any:
        """Return a call that looks at what the first call copies, and then is done."""
        from aotbuild.runtime.copies import looking_once

        platform = lambda: (self._chosen or self.backend.default_devices()).platform  # noqa: E731
        parts = (self.function, self.backend, self.package.stats)
        return looking_once(*parts, platform, call, self._on_copies, done)

    def _is_first(self, event: str) -> bool:
        """Return whether an event that is logged once has not been logged."""
        is_first = event not in self._noted
        self._noted.add(event)
        return is_first

    def prime(self, record: Record, executable: Executable, outputs: list[Any]) -> None:
        """Make the usual calls of a record, once for each executable.

        None for a wrapped function: only its callers have the objects that it takes.
        """
        # Weak, so that an executable whose constants were replaced is gone.
        known = self._primed.get(id(executable))
        if (known and known() is executable) or self.function.wrap:
            return
        self._primed[id(executable)] = ref(executable)
        from aotbuild.runtime.warmup import example_calls

        warm_up, examples = _WarmUp(executable, outputs), executable.examples()
        try:
            treedef = restore(record.signature.tree, None, self.backend.trees)
            for example in example_calls(self.function, record, treedef, examples):
                warm_up.call(self.plain, example)
        except (AotbuildError, ValueError) as err:
            message = f"{record}: ran on zeros, but its first call takes the slow path"
            names = {"package": self.package.name, "function": self.function.name}
            log("debug", "slow_first_call", message, err, **names)

    def pad_plan(self, call: Call) -> PadPlan | None:
        """Return how a call is padded, None if it is not."""
        return self._padded.plan_of(call) if self._padded else None


class _WarmUp:
    """Outputs of executables that were run on zeros, so that an example call runs nothing."""

    def __init__(self, executable: Executable, outputs: list[Any]) -> None:
        self._outputs = {id(executable): (executable, outputs)}
        self._zeros: list[Any] = []

    def outputs(self, executable: Executable) -> list[Any]:
        """Return the outputs of an executable; run it on zeros if that was not done yet."""
        if id(executable) not in self._outputs:
            self._outputs[id(executable)] = executable, executable.run_on_zeros()
        return self._outputs[id(executable)][1]

    def call(self, dispatch: Callable[..., Any], example: ExampleCall) -> None:
        """Make an example call, which enters it into the C++ cache and runs nothing."""
        args, kwargs, self._zeros = example
        token = _WARM_UP.set(self)
        try:
            dispatch(*args, **kwargs)
        finally:
            _WARM_UP.reset(token)

    def serves(self, values: Iterable[Any]) -> bool:
        """Return whether these are the very zeros of the example call.

        Static values do not count: small numbers and short strings are the same object everywhere.
        """
        return all(any(value is zeros for zeros in self._zeros) for value in values)


# Set during an example call, in its thread only.
_WARM_UP: ContextVar[_WarmUp | None] = ContextVar("aotbuild_warm_up", default=None)


def _active_warm_up(values: Iterable[Any]) -> _WarmUp | None:
    """Return the warm-up that made a call with these arguments; None if the call is a real one.

    A signal handler or a finalizer may interrupt an example call and make a real one.
    """
    warm_up = _WARM_UP.get()
    return warm_up if warm_up and warm_up.serves(values) else None
