"""Dispatch: the slow path of a call, taken where jit's C++ cache does not know the call.

A first call takes nine steps: bind, flatten, find, select, place, read, load, run, teach. The last
enters what was found into jit's own C++ cache, so that later calls run no Python. A call that is
padded, or has static values that are not plain, begins here each time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from aotbuild.errors import AotbuildError, InvalidArgument, NoExecutable, SignatureMismatch
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.runtime.binding import (
    Bound,
    Call,
    bind,
    dynamic_values,
    flatten,
    rebind,
    restore_outputs,
    with_static_values,
)
from aotbuild.runtime.compatibility import CHANGE_CALL, Verdict, select
from aotbuild.runtime.concurrency import refuse_if_forked
from aotbuild.runtime.devices import DeviceSet, shortage
from aotbuild.runtime.package import Package

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.backend import Executable, Fallback, Placement
    from aotbuild.runtime.call_errors import Refusals
    from aotbuild.runtime.numpy.placing import StayingResults
    from aotbuild.runtime.padding import PadPlan

_TRANSFORMED = (
    "%s: called inside a JAX transformation (jit, grad, vmap and the like): its source is traced "
    "and compiled there, and no executable of the package runs; call it outside of the "
    "transformation, or compile a function that has the transformation inside"
)


class Dispatch:
    """The slow path of the calls of one function, taken on a miss of the C++ cache.

    There are two caches. `plain` sees calls as they are written. A call that it must not cache, as
    its static values could be confused with others, goes on to `_canonical`, which sees the bound
    arguments, with the static values as one key.
    """

    def __init__(
        self,
        package: Package,
        function: Function,
        source: Callable[..., Any] | None,
        devices: DeviceSet | None,
        staying: StayingResults | None = None,
    ) -> None:
        self.package = package
        self.function = function
        self._source = source
        self._chosen = devices
        self._staying = staying
        self._warned = False
        self.padded = None
        backend, name = package.backend, function.name
        if function.pad:
            from aotbuild.runtime.padding import PaddedCalls

            self.padded = PaddedCalls(package.index, function, backend)
        if package.editable:
            self.plain = self._call_source
            return
        if function.wrap:
            wrap = backend.wrap(function)  # before jax is imported: numpy's backend refuses it
            from aotbuild.runtime.jax.wraps import wrapped_call

            self.plain = wrapped_call(
                function,
                wrap,
                backend,
                self._on_tracers,
                run=self._first_call,
                call_source=self._call_source,
                fall_back=self._fall_back,
            )
            return
        statics = [static.name for static in function.statics]
        positions = [i for i, each in enumerate(function.positional) if each in statics]
        self.plain = backend.dispatch(name, self._call_source, self._miss, positions, statics)
        self._canonical = backend.dispatch(name, self._call_source, self._canonical_miss, [0], [])

    # --- a first call -----------------------------------------------------------------------------
    # A miss returns (outputs, fastpath data or None, False) to the C++ cache.

    def _miss(self, /, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        values = dynamic_values(self.function, args, kwargs)
        if self.package.backend.has_tracers(values):
            self._on_tracers()
            return self._call_source(*args, **kwargs), None, False
        try:
            bound = bind(self.function, args, kwargs)
            plan = self.padded.plan(bound) if self.padded else None
            if self.padded and plan:
                try:
                    padded_args, padded_kwargs = self.padded.pad(plan, bound)
                except InvalidArgument as err:
                    self._leave_to_fallback(err)
                outputs = self._canonical(bound.statics_key, *padded_args, **padded_kwargs)
                self.package.stats.count("padded")
                return self.padded.cut(plan, outputs), None, False
            if bound.direct:
                return self._first_call(bound)
            outputs = self._canonical(bound.statics_key, *bound.args, **bound.kwargs)
            return outputs, None, False
        except NoExecutable as err:
            error = err
        # Not above: what the source raises would be shown as raised while handling `error`.
        try:
            return self._fall_back(error, args, kwargs), None, False
        finally:
            del error  # its traceback holds this frame

    def _canonical_miss(self, key: str, /, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        return self._first_call(rebind(self.function, key, args, kwargs))

    def _first_call(self, bound: Bound) -> tuple[Any, Any, bool]:
        """Serve a bound call by the other eight steps."""
        self.package.stats.count("misses")
        call = flatten(bound, self.package.backend)
        records = self.find(call)
        record = self.best_record(call, self.verdicts(call, records))
        try:
            placement = self.placement(call, record)
        except InvalidArgument as err:
            self._leave_to_fallback(err)
        executable = self.package.loader.load(record, placement)  # read and load
        return self._run_and_teach(executable, call, placement)

    def find(self, call: Call, plan: PadPlan | None = None) -> list[Record]:
        """Return the records of a call's signature, or of the one that it is padded to.

        SignatureMismatch if there are none, or if the call's static data is not that of their
        templates.
        """
        key = plan.key if plan else call.signature.key()
        records = self.package.index.records(self.function.name, key)
        if not records:
            raise self._refusals.no_signature(call, self.host(call))
        if not call.compared:
            return records
        from aotbuild.runtime.named_objects import differences  # few functions have `like:`

        trees = self.package.backend.trees
        lines = [differences(call.treedef, call.compared, record, trees) for record in records]
        equal = [record for record, unequal in zip(records, lines, strict=True) if not unequal]
        if not equal:
            summary = "an argument's static data is not what was compiled"
            advice = self._refusals.remedy(call, self.host(call), CHANGE_CALL)
            raise SignatureMismatch(self.function.name, summary, lines[0], advice)
        return equal

    def verdicts(self, call: Call, records: list[Record]) -> tuple[Verdict, ...]:
        """Return the verdicts on records for the devices that a call may use, the best first."""
        return select(records, self.host(call))

    def best_record(self, call: Call, verdicts: tuple[Verdict, ...]) -> Record:
        """Return the record of the best verdict; NoExecutable if all are refused."""
        if not verdicts[0].fits:
            raise self._refusals.all_refused(call, verdicts, self.host(call))
        return verdicts[0].record

    def placement(self, call: Call, record: Record) -> Placement:
        """Return where an executable runs a call; InvalidArgument if an argument prevents it."""
        backend, devices = self.package.backend, self._devices(call)
        placement: Placement = backend.placement_of_call(call, record, devices)
        return placement

    def host(self, call: Call) -> Host:
        """Return the facts of the devices that a call may use."""
        return self.package.probe(self._devices(call))

    def _devices(self, call: Call) -> DeviceSet:
        return self._chosen or self.package.backend.devices_of_call(call)

    @cached_property
    def _refusals(self) -> Refusals:
        from aotbuild.runtime.call_errors import Refusals  # for errors only

        return Refusals(self.package, self.function, self._fallback)

    def _run_and_teach(
        self, executable: Executable, call: Call, placement: Placement
    ) -> tuple[Any, Any, bool]:
        """Run an executable; return its result, and what teaches the C++ cache to run it."""
        trees = self.package.backend.trees
        out_tree = restore_outputs(executable.record, call.treedef, trees)
        staying = self._staying.leaves(out_tree, trees) if self._staying else frozenset[int]()
        try:
            outputs = executable.run(call.leaves, staying)
        except Exception as err:  # jaxlib raises RuntimeError, ValueError and its own
            twice = self._refusals.donated_twice(err, executable.record, call)
            found = twice or shortage(executable.record, placement.devices[0], err)
            if found is None:
                raise
            raise found from err
        try:
            data = executable.fastpath_data(outputs, out_tree, len(call.leaves), staying)
            # The C++ cache keeps a treedef that it makes of this one.
            out_tree = with_static_values(out_tree, trees.make_treedef)
            return out_tree.unflatten(outputs), data, False
        except AotbuildError:
            raise
        except (Exception, SystemExit) as err:  # types of nodes run code of their own
            from aotbuild.runtime.call_errors import not_made  # for errors only

            raise not_made(executable.record, err) from err

    # --- where no executable runs -----------------------------------------------------------------

    @cached_property
    def _fallback(self) -> Fallback:
        package = self.package
        return package.backend.fallback(package, self.function, self._source, self._chosen)

    def _call_source(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._fallback.call_source(*args, **kwargs)

    def _leave_to_fallback(self, error: InvalidArgument) -> NoReturn:
        """Raise the error of an argument that no executable takes, so that a fallback may."""
        if self.package.fallback_policy == "none":
            raise error
        raise self._refusals.placed_elsewhere(error) from error

    def _fall_back(self, error: NoExecutable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the fallback policy gives for a call that no executable serves."""
        self.package.stats.count("refused")
        policy = self.package.fallback_policy
        if policy == "none":
            raise error
        refuse_if_forked(self.function.name)
        return self._fallback.run(policy, error, args, kwargs)

    def _on_tracers(self) -> None:
        """Count a call inside a transformation, and warn of the first if none may compile."""
        self.package.stats.count("transformed")
        if self.package.fallback_policy == "none" and not self._warned:
            from aotbuild.runtime.log import log

            self._warned = True
            name, package = self.function.name, self.package.name
            log("warning", "transformed", _TRANSFORMED % name, package=package, function=name)
