"""What is said where a job has no golden outputs: by its worker, or in a dead worker's place."""

from __future__ import annotations

from typing import Any

_MEANT = "is meant for, by verify: {inputs: module:function}"

# After an exception, and after the death of the worker.
RAISED_ADVICE = f"Give arguments that it {_MEANT}."
DIED_ADVICE = f"Give arguments that it {_MEANT}, or set verify: {{golden: never}}."
NOT_FINITE = (
    "every golden output is NaN or infinite, which proves little; give arguments that the function "
    f"{_MEANT}"
)


def no_golden(reason: str, *notes: str) -> dict[str, Any]:
    """Return a worker's message that there are none: why, as the record keeps it, and notes."""
    return {"golden": None, "reason": reason, "notes": list(notes)}
