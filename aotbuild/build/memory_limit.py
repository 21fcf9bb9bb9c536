"""The memory limit: no executable that needs more memory than its device has. Pure."""

from __future__ import annotations

from dataclasses import replace

from aotbuild.build.events import UnitDone
from aotbuild.build.plan import BuildUnit
from aotbuild.errors import UnitFailure
from aotbuild.format.record import DEVICE_BYTES, MemoryUse, gib_text, memory_use
from aotbuild.platforms.building import description

STAGE = "memory"
_FRACTION = "XLA_CLIENT_MEM_FRACTION"
# In libtpu's error for a program that is too large; tried on 0.0.42.1 and 0.0.50.1.
_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Ran out of memory")
_ADVICE = (
    "Make a dim smaller, spread it over more devices (mesh:), donate arguments whose buffers the "
    "results can take, or build for a device with more memory"
)


def check_memory(done: UnitDone, mode: str) -> UnitDone:
    """Return a result with its device's memory in the record; a failure if it needs more than that.

    `mode` is the manifest's `memory:`; `warn` makes it a note instead of a failure.
    """
    if done.failure is not None:
        return replace(done, failure=_refused_by_compiler(done.failure))
    record, available = done.record, done.unit.hardware.memory
    if record is None or available is None or record.target.is_portable:
        return done
    record = replace(record, analysis={**record.analysis, DEVICE_BYTES: available})
    use = memory_use(record.analysis)
    if use is not None and use.needed > available and mode == "refuse":
        text = f"{_numbers(use, done.unit)}\n{_ADVICE}. `memory: warn` makes this a note."
        return done.failed(STAGE, text)
    notes = (*done.notes, *(_notes(use, done.unit) if use else ()))
    return replace(done, record=record, notes=notes)


def _notes(use: MemoryUse, unit: BuildUnit) -> list[str]:
    available = unit.hardware.memory or 0
    if use.needed > available:
        return [f"{unit.target}: {_numbers(use, unit)}"]
    preallocated = description(unit.target.platform).preallocated
    if preallocated is not None and use.needed > preallocated * available:
        words = f"of which jax takes {preallocated:.0%}; where it runs, set {_FRACTION} to more"
        return [f"{unit.target}: {_numbers(use, unit)}, {words}"]
    return []


def _numbers(use: MemoryUse, unit: BuildUnit) -> str:
    """Return needed and available memory, as `one device needs 30 GiB (…); L4 has 22 GiB`."""
    parts = {"arguments": use.arguments, "outputs": use.outputs, "temporaries": use.temporaries}
    parts |= {"embedded arrays": use.embedded, "program": use.code}
    words = [f"{name} {gib_text(size)}" for name, size in parts.items() if size]
    if use.shared:
        words.append(f"less {gib_text(use.shared)} that outputs share with donated arguments")
    kind = unit.hardware.kind or unit.target.detail
    available = unit.hardware.memory or 0
    return (
        f"one device needs {gib_text(use.needed)} ({', '.join(words)}); "
        f"{kind} has {gib_text(available)}"
    )


def _refused_by_compiler(failure: UnitFailure) -> UnitFailure:
    """Give the same advice where the compiler itself refuses a large program, as libtpu does."""
    if not all(words in failure.message for words in _OUT_OF_MEMORY):
        return failure
    text = f"{failure.message}\n{_ADVICE}. The compiler refuses it, whatever `memory:` says."
    return replace(failure, stage=STAGE, message=text)
