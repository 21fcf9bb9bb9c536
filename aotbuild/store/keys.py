"""The store's keys, one function for each kind of entry.

A key is the SHA-256 of what goes into a computation, as canonical JSON, and never of what comes
out. An input that decides bytes must be in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.target import HOST

# What of a record's provenance decides the bytes of an executable. Some settings of jax, as
# jax_optimization_level, tell XLA more than the module does.
_DECISIVE = ("stablehlo", "aotbuild", "jax", "jaxlib", "xla_flags", "compiler_options", "config")
# What decides the numbers that a function returns on this CPU, beside its module and arguments.
_VERSIONS = ("aotbuild", "jax", "jaxlib", "xla_flags")


def key_of(inputs: Mapping[str, Any]) -> str:
    """Return the key of a computation's inputs (plain JSON; bytes by their digests)."""
    return sha256_hex(canonical_json(inputs))


def build_key(facts: Mapping[str, Any]) -> str:
    """Return the key of a whole build, from all that decides what it makes (`build.kept_build`)."""
    return key_of({"entry": "build 1", **facts})


def blob_key(sha256: str) -> str:
    """Return the key of bytes by their digest."""
    return key_of({"entry": "blob", "sha256": sha256})


def executable_key(
    *,
    target: str,
    hardware: Mapping[str, Any],
    machine: Any,
    thunk_rewrite: Any,
    provenance: Mapping[str, Any],
) -> str:
    """Return the key of an executable.

    `machine` is what the compiler reads of the machine it runs on, `thunk_rewrite` what
    `worker.thunk_rewrite.rewrite.identity` returns.
    """
    inputs = {
        "target": target,
        "hardware": hardware,
        "machine": machine,
        "compilers": provenance.get("compilers", {}),
        "lean": thunk_rewrite,
        **{name: provenance[name] for name in _DECISIVE},
    }
    return key_of(inputs)


def golden_key(
    *,
    module: str,
    leaves: list[str],
    given: Iterable[tuple[int, str]],
    machine: list[Any],
    provenance: Mapping[str, Any],
) -> str:
    """Return the key of golden outputs.

    `module` is the digest of the reference's module and constants, `leaves` are the avals. `given`
    has the digest of each leaf that the manifest's function gave, by index.
    """
    inputs = {
        "entry": "golden 3",
        "reference": module,
        "leaves": leaves,
        "given": [list(pair) for pair in given],
        HOST: machine,
        **{name: provenance[name] for name in _VERSIONS},
    }
    return key_of(inputs)


def padding_key(
    *,
    modules: list[str],
    padding: Mapping[str, Any],
    leaves: list[str],
    given: Iterable[tuple[int, str]],
    tolerances: list[float | None],
    machine: list[Any],
    provenance: Mapping[str, Any],
) -> str:
    """Return the key of a comparison that found that padding changes nothing.

    `modules` are the digests of the function's modules and constants at the exact and at the padded
    size, `padding` is the JSON form of `format.padding.Padding`; the rest is as in `golden_key`.
    """
    inputs = {
        "entry": "padding 2",
        "modules": modules,
        # Which sizes there are is in the modules.
        "padding": {**padding, "buckets": []},
        "leaves": leaves,
        "given": [list(pair) for pair in given],
        "tolerances": tolerances,
        HOST: machine,
        **{name: provenance[name] for name in _VERSIONS},
    }
    return key_of(inputs)
