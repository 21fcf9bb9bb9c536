"""Kept stages: what is kept of a compilation for people to read, and where its bytes are.

A record names them and holds their digests, so whoever vouches for the index vouches for them,
also where the bytes are in a file of their own beside the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aotbuild.spec.record import Blob, Record

# Each stage, in the order of a compilation, and the kind of its blob. `stablehlo` is another kind:
# a serialized `jax.export.Exported`.
KINDS = {"jaxpr": "jaxpr", "stablehlo": "mlir", "hlo": "hlo", "cost": "json", "memory": "json"}
STAGES = tuple(KINDS)

# The key of the index's header, which is there only if something was kept, and its values.
HEADER_KEY = "stages"
BESIDE = "beside"
WHEEL = "wheel"

_SUFFIX = ".stages.zip"


def packaged_blobs(record: Record, header: Mapping[str, Any]) -> tuple[Blob, ...]:
    """Return every blob that is in the package for a record, kept stages too where they are."""
    kept = record.stages if header.get(HEADER_KEY) == WHEEL else ()
    return (*record.blobs(), *(blob for _, blob in kept))


def stages_path(place: Path) -> Path:
    """Return the file of kept stages that belongs beside a wheel or an `_aot` folder.

    ValueError for `.`, which does not say how the folder is called.
    """
    if place.suffix == ".whl":
        return place.with_suffix(_SUFFIX)
    return place.with_name(place.name + _SUFFIX)
