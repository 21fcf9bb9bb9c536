"""Fallbacks: a call that no executable serves runs the source, or the StableHLO of the package.

An executable cannot be traced through. So inside jit, grad, vmap and the like, a kernel or a
function under `aotbuild.precompiled` calls its source, and the transformation sees the operations
in it. `private.has_tracers` recognizes such a call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import jax

from aotbuild.errors import AotbuildError, NoExecutable, NotTransformable
from aotbuild.format.aval import parse_spec
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.runtime.binding import (
    Call,
    bind,
    flatten,
    leaf_paths,
    restore_outputs,
    with_static_values,
)
from aotbuild.runtime.checked_blobs import Source, read_blob
from aotbuild.runtime.compatibility import portable_reasons
from aotbuild.runtime.concurrency import SingleFlight, Stats
from aotbuild.runtime.devices import DeviceSet
from aotbuild.runtime.jax import private
from aotbuild.runtime.jax.placement import leaf_shardings
from aotbuild.runtime.jax.wraps import with_markers
from aotbuild.runtime.log import log
from aotbuild.runtime.named_objects import differences, import_named

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.backend import Backend, OpenPackage

# Warnings that are remembered for each function, so that each is given once.
_MOST_LOGGED = 1024


class JaxFallback:
    """The fallback of one function: the source under jit, or a portable executable.

    `source` is the Python function, or None to import it. `devices` are those that the caller chose
    with `Library.on`.
    """

    def __init__(
        self,
        backend: Backend,
        portable: Portable,
        package: OpenPackage,
        function: Function,
        source: Callable[..., Any] | None,
        devices: DeviceSet | None,
    ) -> None:
        self._backend = backend
        self._portable = portable
        self._package = package
        self._function = function
        options = package.editable.get(function.name)
        self._source = PythonSource(function, source, options)
        self._chosen = devices
        self._logged: set[int] = set()

    def call_source(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the source under jit; NotTransformable if it cannot be imported."""
        return self._source.jitted(*args, **kwargs)

    def run(
        self, policy: str, error: NoExecutable, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Obey the policy `portable` or `jit`; raise `error`, with reasons added, if it fails."""
        with jax.default_device(self._chosen.first) if self._chosen else nullcontext():
            if policy == "portable":
                return self._run_portable(error, args, kwargs)
            source = self._source_instead_of(error)
            self._package.stats.count("fallback.jit")
            return source(*args, **kwargs)

    def serving(self, call: Call, host: Host) -> list[str]:
        """Return the policies that would serve a call which no executable serves."""
        refusals = (self._portable.refusal(call, record, host) for record in self._portable_records)
        portable = ["portable"] if None in refusals else []
        return [*portable, *(["jit"] if self._source.is_here else [])]

    def _source_instead_of(self, error: NoExecutable) -> Callable[..., Any]:
        try:
            source = self._source.jitted
        except NotTransformable as err:
            trace = [*error.trace, f"fallback jit: {err.call} is not importable: {err.reason}"]
            raise type(error)(error.function, error.summary, trace, error.remedy) from err
        names = {"package": self._package.name, "function": self._function.name}
        what = "no executable fits, calling the source with jit"
        said = hash(str(error))
        level: Any = "debug" if said in self._logged else "warning"
        if len(self._logged) >= _MOST_LOGGED:
            self._logged.clear()
        self._logged.add(said)
        log(level, "fallback", what, error, **names, policy="jit")
        return source

    def _run_portable(
        self, error: NoExecutable, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        given = bind(self._function, args, kwargs)
        bound, units = with_markers(given, self._backend) if self._function.wrap else (given, [])
        call = flatten(bound, self._backend)
        devices = self._chosen or self._backend.devices_of_call(call)
        host = self._package.probe(devices)
        record, outputs = self._portable.run(call, self._portable_records, devices, host, error)
        self._package.stats.count("fallback.portable")
        out_tree = restore_outputs(record, call.treedef, self._backend.trees)
        make_treedef = self._backend.trees.make_treedef
        result = with_static_values(out_tree, make_treedef).unflatten(outputs)
        if self._function.wrap:
            values = (*given.args, *given.kwargs.values())
            return self._backend.wrap(self._function).finish(result, units, values)
        return result

    @cached_property
    def _portable_records(self) -> list[Record]:
        records = self._package.index.records(self._function.name)
        return [record for record in records if record.target.is_portable]


class PythonSource:
    """The source of one function. It is imported at its first use, unless the caller gave it.

    `options` are those of `jax.jit` where the index has no static arguments, as in an editable
    install.
    """

    def __init__(
        self,
        function: Function,
        given: Callable[..., Any] | None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._function, self._given, self._options = function, given, options

    @cached_property
    def jitted(self) -> Callable[..., Any]:
        """The source under jit, with the static arguments that it was compiled with.

        NotTransformable if it cannot be imported.
        """
        source: Any = self._given or self._import()
        source = getattr(source, "__aotbuild_source__", source)
        if hasattr(source, "lower"):
            return cast("Callable[..., Any]", source)
        options = self._options or {
            "static_argnames": [static.name for static in self._function.statics]
        }
        given = {name: tuple(value) for name, value in options.items() if value}
        if self._function.wrap:
            from aotbuild.runtime.jax.wraps import jit_of

            return jit_of(self._function.wrap, source, given)
        return cast("Callable[..., Any]", jax.jit(source, **given))

    @cached_property
    def is_here(self) -> bool:
        """Whether the source is given, or its package is installed; imports nothing."""
        top = self._function.call.partition(":")[0].partition(".")[0]
        return self._given is not None or top in sys.modules or find_spec(top) is not None

    def _import(self) -> Any:
        name, call = self._function.name, self._function.call
        try:
            return import_named(call)
        except Exception as err:  # the user's module runs here and may raise anything
            raise NotTransformable(name, call, f"{type(err).__name__}: {err}") from err


def read_exported(source: Source, record: Record) -> Any:
    """Return the exported function of a portable record; AotbuildError if this jax refuses it."""
    from jax import export

    try:
        return export.deserialize(bytearray(read_blob(source, record.blob)))
    except AotbuildError:
        raise
    except Exception as err:  # flatbuffers and MLIR raise errors of many kinds
        by = record.provenance.get("jax", "of an unknown version")
        msg = (
            f"{record}: jax {jax.__version__} cannot read what jax {by} exported\n"
            f"  found    {type(err).__name__}: {err}\nBuild the wheel again with the jax that is "
            f"installed here, or install jax {by}."
        )
        raise AotbuildError(msg) from err


class Portable:
    """Compiles and runs the StableHLO of one package, once for each record and its devices."""

    def __init__(self, backend: Backend, package: str, source: Source, stats: Stats) -> None:
        self._backend = backend
        self._package = package
        self._source = source
        self._stats = stats
        self._exported: SingleFlight[Any] = SingleFlight()
        self._jitted: SingleFlight[Callable[..., Any]] = SingleFlight()
        self._counted: SingleFlight[bool] = SingleFlight()

    def run(
        self,
        call: Call,
        records: Iterable[Record],
        devices: DeviceSet,
        host: Host,
        error: NoExecutable,
    ) -> tuple[Record, list[Any]]:
        """Run the first portable record that fits; return it and the flat outputs.

        If none fits, raise `error` with the reasons added.
        """
        reasons, cause = [], cast("Exception", error)
        for record in records:
            reason = self.refusal(call, record, host)
            if reason is None:
                try:
                    return record, self._run(call, record, devices)
                except ValueError as err:
                    if not _symbolic_leaves(record):
                        raise
                    reason, cause = str(err).partition("\n")[0], err
            reasons.append(f"{record}: REFUSED: {reason}")
        known = [line for line in error.trace if "portable: compiled at first use" not in line]
        trace = [*known, *(reasons or ["no portable record was built"])]
        raise type(error)(error.function, error.summary, trace, error.remedy) from cause

    def _run(self, call: Call, record: Record, devices: DeviceSet) -> list[Any]:
        placed: tuple[Any, ...] = ()
        options: dict[str, Any] = {}
        if record.calling.mesh:
            placed = self._backend.placement_of_call(call, record, devices).devices
            options["in_shardings"] = leaf_shardings(record, placed)
        key = (record.blob.sha256, placed)
        run = self._jitted.get(key, lambda: self._jit(record, options))
        start = perf_counter()
        outputs = list(run(*call.leaves))
        seconds = perf_counter() - start
        # A symbolic record is compiled again for every signature that it serves.
        counted = lambda: self._count(call, record, devices, seconds)  # noqa: E731
        self._counted.get((*key, call.signature.key()), counted)
        return outputs

    def _jit(self, record: Record, options: dict[str, Any]) -> Callable[..., Any]:
        exported = self._exported.get(
            record.blob.sha256, lambda: read_exported(self._source, record)
        )
        weak = record.provenance.get("weak_outputs", ())

        def call(*leaves: Any) -> list[Any]:
            outputs = enumerate(exported.call(*leaves))
            return [private.weakly_typed(each) if at in weak else each for at, each in outputs]

        donated = tuple(record.calling.donated) or None
        run: Callable[..., Any] = jax.jit(call, donate_argnums=donated, **options)
        return run

    def _count(self, call: Call, record: Record, devices: DeviceSet, seconds: float) -> bool:
        self._stats.count("portable_compiled")
        signature = ", ".join(map(str, call.signature.leaves))
        what = f"{record}: no executable fits; compiled the portable one for {signature}"
        facts = {"package": self._package, "function": record.function, "signature": signature}
        log("warning", "compiled", what, None, platform=devices.platform, seconds=seconds, **facts)
        return True

    def refusal(self, call: Call, record: Record, host: Host) -> str | None:
        """Return why a portable record does not serve a call; None if it does."""
        reasons = portable_reasons(record, host)
        if reasons:
            return "; ".join(reasons)
        leaves = _symbolic_leaves(record)
        if leaves is not None:
            reason = self._refuse_symbolic(call, record, leaves)
        else:
            is_same = record.signature.key() == call.signature.key()
            reason = None if is_same else "another signature"
        return (
            reason
            or "; ".join(differences(call.treedef, call.compared, record, self._backend.trees))
            or None
        )

    def _refuse_symbolic(self, call: Call, record: Record, leaves: list[str]) -> str | None:
        found, expected = call.signature, record.signature
        # Keys, not `==`, which does not tell 1 from True or 1.0 in static data.
        if replace(found, leaves=()).key() != replace(expected, leaves=()).key():
            return "another signature"
        paths = leaf_paths(call.bound, self._backend.trees)
        for path, have, text in zip(paths, found.leaves, leaves, strict=True):
            dtype, weak, rank = _parse_symbolic(text)
            if (have.dtype, have.weak_type, len(have.shape)) != (dtype, weak, rank):
                return f"{path}: expected {text}, found {have}"
        return None


def _symbolic_leaves(record: Record) -> list[str] | None:
    """Return the leaves of a record whose shapes have symbols, as jax prints them, or None."""
    return record.provenance.get("symbolic_leaves")


def _parse_symbolic(text: str) -> tuple[str, bool, int]:
    """Return (dtype, weak type, rank); a comma inside `max(a, b)` separates no axes."""
    head, _, dims = text.partition("[")
    _, dtype, weak = parse_spec(f"{head}[]")
    depth, rank = 0, 1 if dims.rstrip("]").strip() else 0
    for char in dims:
        depth += (char == "(") - (char == ")")
        rank += char == "," and depth == 0
    return dtype, weak, rank
