"""Whether executables come from the same program, by what the provenance of their records keeps.

`trace` has two digests of the trace: its `constants`, and its `operations` with them. `config` has
the options of jax that it was made with, and `env` a digest of the manifest's `env:`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.record import Record

# The key in a record's provenance, and those of the digests.
TRACE, CONSTANTS, OPERATIONS = "trace", "constants", "operations"
CONFIG, ENV = "config", "env"
# Options of jax that decide the numbers of a program beside its dtypes, and what they are where
# nobody sets them.
NUMBER_OPTIONS: dict[str, Any] = {
    "jax_default_matmul_precision": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
}
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


def env_provenance(env: Mapping[str, str]) -> dict[str, str]:
    """Return what the provenance says of a function's `env:`; its values are not to be read."""
    return {ENV: sha256_hex(canonical_json(dict(env)))} if env else {}


def other_setting(one: Record, other: Record) -> str | None:
    """Return which setting of a function differs between two of its records; None if none does.

    A version of jax may lack an option that another one has: those that both have are compared.
    What an older aotbuild built has no `env`.
    """
    if one.provenance.get(ENV) != other.provenance.get(ENV):
        return "env: other variables or values"
    here, there = (record.provenance.get(CONFIG, {}) for record in (one, other))
    for name in sorted(here.keys() & there.keys()):
        if here[name] != there[name]:
            expected, found = (canonical_json(each[name]).decode() for each in (here, there))
            return f"config: {name}: expected {expected}, found {found}"
    return None
