"""Fallbacks: what a call does that no executable can serve."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from aotbuild.errors import AotbuildError, NoExecutable, NotTransformable
from aotbuild.runtime.binding import Call
from aotbuild.runtime.concurrency import Once
from aotbuild.runtime.host import Host
from aotbuild.runtime.select import portable_reasons
from aotbuild.runtime.source import Source, read_blob
from aotbuild.runtime.stats import Stats
from aotbuild.spec.aval import parse_spec
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function

if TYPE_CHECKING:
    from aotbuild.runtime.devices import Scope

_LOG = logging.getLogger("aotbuild")


def import_source(function: Function) -> Callable[..., Any]:
    """Return the source function under jit; NotTransformable if it cannot be imported."""
    module, _, qualname = function.call.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except Exception as err:  # the user's module runs here and may raise anything
        reason = f"{type(err).__name__}: {err}"
        raise NotTransformable(function.name, function.call, reason) from err
    return jitted(function, found)


def jitted(function: Function, source: Any) -> Callable[..., Any]:
    """Return a source function under jit with the statics it was compiled with."""
    import jax

    source = getattr(source, "__aotbuild_source__", source)
    if hasattr(source, "lower"):
        return cast("Callable[..., Any]", source)
    names = tuple(static.name for static in function.statics)
    return cast("Callable[..., Any]", jax.jit(source, static_argnames=names or None))


class Portable:
    """Compiles and runs the StableHLO that a package ships, once for each record."""

    def __init__(self, source: Source, stats: Stats) -> None:
        self._source = source
        self._stats = stats
        self._exported: Once[Any] = Once()
        self._jitted: Once[Callable[..., Any]] = Once()
        self._counted: Once[bool] = Once()

    def run(
        self,
        call: Call,
        records: Iterable[Record],
        scope: Scope,
        host: Host,
        error: NoExecutable,
    ) -> tuple[Record, list[Any]]:
        """Run the first portable record that fits a call; else raise `error` with more reasons."""
        reasons = []
        for record in records:
            reason = _refuse(call, record, host)
            if reason is None:
                try:
                    return record, self._run(call, record, scope)
                except ValueError as err:
                    if not _symbolic(record):
                        raise
                    reason = str(err).splitlines()[0]
            reasons.append(f"{record}: REFUSED: {reason}")
        known = [line for line in error.trace if "portable: compiled at first use" not in line]
        trace = [*known, *(reasons or ["no portable record was built"])]
        raise type(error)(error.function, error.summary, trace, error.remedy) from error

    def _run(self, call: Call, record: Record, scope: Scope) -> list[Any]:
        devices, options = self._placement(call, record, scope)
        key = (record.blob.sha256, devices)
        jitted = self._jitted.get(key, lambda: self._jit(record, options))
        outputs = list(jitted(*call.leaves))
        # A symbolic one is compiled again for every signature that it serves.
        self._counted.get((*key, call.signature.key()), lambda: self._count(call, record))
        return outputs

    def _placement(
        self, call: Call, record: Record, scope: Scope
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not record.calling.mesh:
            return (), {}
        from aotbuild.runtime.backends.jax.placement import leaf_shardings, place

        devices = place(call, record, scope).devices
        return devices, {"in_shardings": leaf_shardings(record, devices)}

    def _jit(self, record: Record, options: dict[str, Any]) -> Callable[..., Any]:
        import jax

        exported = self._exported.get(record.blob.sha256, lambda: self._deserialize(record))
        donated = tuple(record.calling.donated)
        jitted: Callable[..., Any] = jax.jit(
            exported.call, donate_argnums=donated or None, **options
        )
        return jitted

    def _deserialize(self, record: Record) -> Any:
        from jax import export

        data = read_blob(self._source, record.blob)
        try:
            return export.deserialize(bytearray(data))
        except Exception as err:  # flatbuffers and MLIR raise errors of many kinds
            msg = f"{record}: jax.export cannot read it: {type(err).__name__}: {err}"
            raise AotbuildError(msg) from err

    def _count(self, call: Call, record: Record) -> bool:
        self._stats.count("portable_compiled")
        leaves = ", ".join(map(str, call.signature.leaves))
        _LOG.warning("%s: no executable fits; compiled the portable one for %s", record, leaves)
        return True


def _symbolic(record: Record) -> list[str] | None:
    """Return the leaves of a record whose shapes have symbols, as jax prints them, or None."""
    return record.provenance.get("symbolic_leaves")


def _refuse(call: Call, record: Record, host: Host) -> str | None:
    reasons = portable_reasons(record, host)
    if reasons:
        return "; ".join(reasons)
    leaves = _symbolic(record)
    if leaves is None:
        return None if record.signature.key() == call.signature.key() else "another signature"
    return _refuse_symbolic(call, record, leaves)


def _refuse_symbolic(call: Call, record: Record, leaves: list[str]) -> str | None:
    found, expected = call.signature, record.signature
    if found.tree != expected.tree or repr(found.statics) != repr(expected.statics):
        return "another signature"
    for path, have, text in zip(call.paths, found.leaves, leaves, strict=True):
        dtype, weak, rank = _parse_symbolic(text)
        if (have.dtype, have.weak_type, len(have.shape)) != (dtype, weak, rank):
            return f"{path}: expected {text}, found {have}"
    return None


def _parse_symbolic(text: str) -> tuple[str, bool, int]:
    """Return (dtype, weak type, rank); commas inside `max(a, b)` and the like do not count."""
    head, _, dims = text.partition("[")
    _, dtype, weak = parse_spec(f"{head}[]")
    depth, rank = 0, 1 if dims.rstrip("]").strip() else 0
    for char in dims:
        depth += (char == "(") - (char == ")")
        rank += char == "," and depth == 0
    return dtype, weak, rank
