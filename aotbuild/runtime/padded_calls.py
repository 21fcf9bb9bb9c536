"""Padded calls: decided once for each kind of call, then padded, executed and cut."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, InvalidArgument
from aotbuild.runtime import arguments
from aotbuild.runtime.arguments import Bound, Call
from aotbuild.runtime.padding import Step, find_step, why_not
from aotbuild.spec.function import Function
from aotbuild.spec.index import Index

if TYPE_CHECKING:
    from aotbuild.runtime.door import Door

_KEPT = 1024


class PaddedCalls:
    """The calls of one function that run the executable of a larger size."""

    def __init__(self, index: Index, function: Function, door: Door) -> None:
        self._index = index
        self._function = function
        self._door = door
        self._steps: dict[Hashable, Step | None] = {}

    def step(self, bound: Bound) -> Step | None:
        """Return how a call is padded, None if it is not; raises what `flatten` does."""
        try:
            leaves, treedef = self._door.trees.flatten((bound.args, bound.kwargs))
        except ValueError:
            return self.of(arguments.flatten(bound, self._door))
        facts = tuple(map(self._door.padding.fact, leaves))
        if None in facts:
            return self.of(arguments.flatten(bound, self._door))
        key = (treedef, facts, bound.statics_key)
        try:
            return self._steps[key]
        except KeyError:
            step = self.of(arguments.flatten(bound, self._door))
            if len(self._steps) >= _KEPT:
                self._steps.clear()
            self._steps[key] = step
            return step

    def of(self, call: Call) -> Step | None:
        """Return how a flattened call is padded, None if it is not."""
        return find_step(self._index, self._function, call.signature)

    def why_not(self, call: Call) -> list[str]:
        """Return what the error of a call without an executable says of padding."""
        pad = self._function.pad
        return why_not(pad, call.signature, call.paths) if pad else []

    def run(self, step: Step, bound: Bound, execute: Callable[..., Any]) -> Any:
        """Pad a call, execute it as `execute(statics key, *args, **kwargs)`, cut its results."""
        trees, arrays = self._door.trees, self._door.padding
        leaves, treedef = trees.flatten((bound.args, bound.kwargs))
        for index in step.leaves():
            problem = arrays.problem(leaves[index])
            if problem:
                path = arguments.flatten(bound, self._door).paths[index]
                raise InvalidArgument(self._function.name, path, *problem)
            try:
                leaves[index] = arrays.pad(step, index, leaves[index])
            except (ValueError, OverflowError) as err:  # a value that the dtype does not have
                msg = f"{self._function.name}: padding failed: {err}; rebuild the wheel"
                raise AotbuildError(msg) from err
        args, kwargs = treedef.unflatten(leaves)
        outputs, out_tree = trees.flatten(execute(bound.statics_key, *args, **kwargs))
        return out_tree.unflatten(self._cut(step, outputs))

    def _cut(self, step: Step, outputs: Sequence[Any]) -> list[Any]:
        count, name = len(step.padding.outputs), self._function.name
        if len(outputs) != count:
            msg = f"{name}: {len(outputs)} results, and padding for {count}; rebuild the wheel"
            raise AotbuildError(msg)
        try:
            shapes = [step.cut_shape(index, array.shape) for index, array in enumerate(outputs)]
        except ValueError as err:
            msg = f"{name}: {err}; rebuild the wheel"
            raise AotbuildError(msg) from err
        pairs = zip(outputs, shapes, strict=True)
        return [array if s is None else self._door.padding.cut(array, s) for array, s in pairs]
