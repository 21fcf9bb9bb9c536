"""Run rewritten executables and the plain ones on the golden inputs: all bytes must be equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from aotbuild.build.progress import compared, plain_kept
from aotbuild.build.protocol import Compiled, Reply, Started
from aotbuild.format.target import HOST
from aotbuild.store.entry import Entry
from aotbuild.store.local import Store
from aotbuild.worker import private as jax_private
from aotbuild.worker.golden.inputs import donated_inputs, executable_inputs
from aotbuild.worker.lower import Lowered
from aotbuild.worker.thunk_rewrite.rewrite import COMPARED, LOADED
from aotbuild.worker.user_errors import shorten


@dataclass(frozen=True)
class Candidate:
    """A rewritten executable that goes to the store once it was compared with the plain one."""

    lowered: Lowered
    plain: bytes
    rewritten: Entry
    store: Store
    key: str

    def keep(self, outcome: Mapping[str, str]) -> None:
        """Keep the rewritten executable in the store; the plain one if the outcome is a note."""
        data = self.plain if "note" in outcome else self.rewritten.data
        facts = {**self.rewritten.facts, "shrink": dict(outcome)}
        self.store.put(self.key, Entry(facts, data))


def comparisons(
    candidates: Sequence[tuple[Candidate, Compiled]], given: Mapping[int, Any] | None
) -> Iterator[Reply]:
    """Compare the executables of one job, with the leaves that `verify: inputs:` gave, by index.

    Yield the message of each again, as it is after that. None: no golden outputs were computed, so
    the executables are not run either.
    """
    if given is None:
        for candidate, _ in candidates:
            candidate.keep(LOADED)
    elif candidates:
        yield Started(stage="shrink")
        for candidate, message in candidates:
            outcome = _compare(candidate, given)
            candidate.keep(outcome)
            yield compared(message, outcome.get("note", ""))


def _compare(candidate: Candidate, given: Mapping[int, Any]) -> dict[str, str]:
    try:
        inputs = executable_inputs(candidate.lowered, given)
        donated = donated_inputs(candidate.lowered)
        wanted, found = (
            _run(data, inputs, donated) for data in (candidate.plain, candidate.rewritten.data)
        )
    except Exception as err:  # noqa: BLE001 (XLA raises many types)
        problem = shorten(str(err)).partition("\n")[0]
        words = f"comparing the rewritten executable with the plain one raised {problem}"
        return {"note": plain_kept(words)}
    for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if one != other:
            return {"note": plain_kept(f"the rewritten executable gives another result {number}")}
    return COMPARED


def _run(data: bytes, inputs: Sequence[Any], donated: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return dtype, shape and bytes of each output."""
    device = jax.devices(HOST)[0]
    jax_private.prepare_custom_calls(data)
    executable = jax_private.load_executable(data, device)
    # The executable may write to what is donated, and the next one takes the same inputs.
    own = [array.copy() if at in donated else array for at, array in enumerate(inputs)]
    outputs = jax_private.run_executable(executable, [jax.device_put(a, device) for a in own])
    return [(output.dtype, output.shape, output.tobytes()) for output in outputs]
