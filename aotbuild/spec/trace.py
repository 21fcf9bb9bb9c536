"""Whether executables of one signature come from the same program, by what their records keep.

`provenance.trace` has two digests of the trace: its `constants`, and its `operations` with them.
"""

from __future__ import annotations

from aotbuild.spec.record import Record

# The key in a record's provenance, and those of the digests.
TRACE, CONSTANTS, OPERATIONS = "trace", "constants", "operations"
_SYMBOLIC = "symbolic_leaves"


def difference(one: Record, other: Record) -> str | None:
    """Return which digest tells the traces of two records of a signature apart; None if none does.

    Operations compare only between traces by one jax, and not with those over symbolic dims. What
    an older aotbuild built has no digests.
    """
    first, second = one.provenance.get(TRACE), other.provenance.get(TRACE)
    if not isinstance(first, dict) or not isinstance(second, dict):
        return None
    if first.get(CONSTANTS) != second.get(CONSTANTS):
        return CONSTANTS
    is_alike = all(
        one.provenance.get(name) == other.provenance.get(name) for name in ("jax", _SYMBOLIC)
    )
    return OPERATIONS if is_alike and first.get(OPERATIONS) != second.get(OPERATIONS) else None
