"""Rewrite an executable, and keep the result only if it is as good as the plain one.

XLA must load it and start it in the same thread. Where golden outputs are computed, both run on the
same inputs, and all bytes of the outputs must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jaxlib.version import __version__ as jaxlib_version

from aotbuild.build.job_results import compared, plain_kept
from aotbuild.build.protocol import Compiled, Reply, Started
from aotbuild.format.target import HOST, Target
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Store
from aotbuild.worker import private as jax_private
from aotbuild.worker.lower import Lowered
from aotbuild.worker.reference import donated_inputs, executable_inputs
from aotbuild.worker.thunk_rewrite.grouping import group_thunks
from aotbuild.worker.thunk_rewrite.program import fusions, shrink_program
from aotbuild.worker.user_errors import shorten

# Part of the store's key. Increase it when the same executable would become other bytes.
VERSION = 7
# What a record's provenance says of a rewritten executable: XLA loads it; and it gave the same
# results as the plain one.
LOADED = {"check": "loaded"}
COMPARED = {"check": "compared"}
# XLA runs a program of fewer operations in the thread that calls it, and starts another one for the
# rest. It counts them when it loads a program: cheap_computation_ in xla/pjrt/cpu/cpu_client.cc.
_FEW_OPERATIONS = 1000
# Of the fusions that compute most, how many may keep their bodies for the sake of that count.
_MOST_KEPT = 64


def is_rewritten(target: Target) -> bool:
    """Return whether executables of a target are rewritten: those for one CPU device."""
    return target.platform == HOST and target.devices == 1


def identity(target: Target, *, shrink: bool, compared: bool) -> Any:
    """Return what decides what becomes of an executable here, for the store's key.

    `shrink` says that it is rewritten, `compared` that it will be compared with the plain one.
    """
    if not is_rewritten(target) or (shrink and compared):
        return VERSION
    return [VERSION, "loaded" if shrink else "plain"]


def rewrite(data: bytes, target: Target, module: Any) -> tuple[bytes, dict[str, str]]:
    """Return an executable that loads faster and runs the same code, and LOADED.

    `module` is its optimized HLO. `data` and an empty dict if it is for another platform, several
    devices or an unknown jaxlib. `data` and a `note` for the user if XLA does not load the result.
    """
    if not is_rewritten(target):
        return data, {}
    with_groups = group_thunks(data, jaxlib_version)
    shrunk = shrink_program(with_groups, jaxlib_version)
    if shrunk is None:
        return data, {}
    try:
        rewritten = _in_the_same_thread(with_groups, shrunk, few=_is_few(module))
    except Exception as err:  # noqa: BLE001 (XLA raises many types)
        problem = shorten(str(err)).partition("\n")[0]
        return data, {"note": plain_kept(f"XLA does not load the rewritten executable ({problem})")}
    return rewritten, LOADED if rewritten != data else {}


def _in_the_same_thread(data: bytes, shrunk: bytes, *, few: bool) -> bytes:
    """Return a shrunk executable that XLA starts in the thread in which it starts `data`.

    It does so by whether the operations are `few`. If `shrunk` has others, some fusions keep their
    bodies, so that XLA counts them.
    """
    if _is_few(_loaded(shrunk)) == few:
        return shrunk
    candidates, kept = fusions(data), 1
    while kept <= min(2 * len(candidates), _MOST_KEPT):
        longer = shrink_program(data, jaxlib_version, candidates[:kept])
        if longer is not None and _is_few(_loaded(longer)) == few:
            return longer
        kept *= 2
    _loaded(data)  # raises if XLA does not load it
    return data


def _is_few(module: Any) -> bool:
    # XLA counts as many when it loads an executable of this module.
    return jax_private.module_cost(module).get("flops", 0) < _FEW_OPERATIONS


def _loaded(data: bytes) -> Any:
    """Return the HLO module of an executable that XLA loads."""
    # Loading runs none of the code, so this machine need not have its instructions.
    return jax_private.load_executable(data, jax.devices(HOST)[0]).hlo_modules()[0]


# --- comparing ----------------------------------------------------------------------------------


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
            outcome = _outcome(candidate, given)
            candidate.keep(outcome)
            yield compared(message, outcome.get("note", ""))


def _outcome(candidate: Candidate, given: Mapping[int, Any]) -> dict[str, str]:
    try:
        inputs = executable_inputs(candidate.lowered, given)
        donated = donated_inputs(candidate.lowered)
        wanted, found = (
            _outputs(data, inputs, donated) for data in (candidate.plain, candidate.rewritten.data)
        )
    except Exception as err:  # noqa: BLE001 (XLA raises many types)
        problem = shorten(str(err)).partition("\n")[0]
        words = f"comparing the rewritten executable with the plain one raised {problem}"
        return {"note": plain_kept(words)}
    for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if one != other:
            return {"note": plain_kept(f"the rewritten executable gives another result {number}")}
    return COMPARED


def _outputs(data: bytes, inputs: Sequence[Any], donated: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return dtype, shape and bytes of each output."""
    device = jax.devices(HOST)[0]
    jax_private.prepare_custom_calls(data)
    executable = jax_private.load_executable(data, device)
    # The executable may write to what is donated, and the next one takes the same inputs.
    own = [array.copy() if at in donated else array for at, array in enumerate(inputs)]
    outputs = jax_private.run_executable(executable, [jax.device_put(a, device) for a in own])
    return [(output.dtype, output.shape, output.tobytes()) for output in outputs]
