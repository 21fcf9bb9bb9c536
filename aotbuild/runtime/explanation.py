"""Explanations: what a call would do, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Record
from aotbuild.runtime.binding import bind, dynamic_values, flatten
from aotbuild.runtime.compatibility import Verdict, refusal_trace
from aotbuild.runtime.concurrency import fork_refusal

if TYPE_CHECKING:
    from aotbuild.runtime.dispatch import Dispatch


@dataclass(frozen=True)
class Explanation:
    """What a call would do, and why. `str()` of it is the text that is meant to be read.

    Attributes:
        function: The name of the function.
        verdicts: The verdict on each record of the call's signature, best first.
        chosen: The record that would run, or None.
        error: What the call would raise with `fallback: none`, if nothing would run; inside a
            transformation or an editable install, that the source serves it.
        padded: How the call would be padded, as `batch 3 → 8`, or empty.
        compared: Static data that was compared with that of a tree which the manifest names, as
            `state.rule with that of mypkg.model:init`.
        refused: If a record would run, why others do not; those with equal reasons share a line.
    """

    function: str
    verdicts: tuple[Verdict, ...]
    chosen: Record | None
    error: AotbuildError | None = None
    padded: str = ""
    compared: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.error is not None:
            return str(self.error)
        padded = f", padded {self.padded}" if self.padded else ""
        fitting = [str(verdict) for verdict in self.verdicts if verdict.fits]
        compared = [f"compared {text}" for text in self.compared]
        lines = [f"{self.function}: runs {self.chosen}{padded}", *fitting, *self.refused, *compared]
        return "\n  ".join(lines)


def explain(dispatch: Dispatch, args: Sequence[Any], kwargs: dict[str, Any]) -> Explanation:
    """Explain what a call would do, by the steps of a first call up to loading."""
    function, backend = dispatch.function, dispatch.package.backend
    name, verdicts = function.name, tuple[Verdict, ...]()
    if note := dispatch.package.editable_note:
        return Explanation(name, verdicts, None, AotbuildError(f"{name}: {note}"))
    if backend.has_tracers(dynamic_values(function, tuple(args), kwargs)):
        msg = (
            f"{name}: called inside a JAX transformation (jit, grad, vmap and the like), where its "
            "source is traced and no executable runs"
        )
        return Explanation(name, verdicts, None, AotbuildError(msg))
    try:
        bound = bind(function, tuple(args), kwargs)
        if function.wrap:
            from aotbuild.runtime.jax.wraps import with_markers  # which imports jax

            bound, _ = with_markers(bound, backend)
        call = flatten(bound, backend)
        plan = dispatch.padded.plan_of(call) if dispatch.padded else None
        verdicts = dispatch.verdicts(call, dispatch.find(call, plan))
        chosen = dispatch.best_record(call, verdicts)
        dispatch.placement(call, chosen)
    except AotbuildError as err:
        return Explanation(name, verdicts, None, err)
    if error := fork_refusal(chosen):
        return Explanation(name, verdicts, None, error)
    compared = tuple(f"{place} with that of {like}" for place, *_, like in call.compared)
    refused = tuple(refusal_trace(verdicts, dispatch.host(call)))
    return Explanation(name, verdicts, chosen, None, str(plan or ""), compared, refused)
