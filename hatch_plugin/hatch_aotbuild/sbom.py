"""The wheel's bill of materials, for hatchling to put into `.dist-info/sboms` (PEP 770)."""

from __future__ import annotations

import os
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.report.distribution import Distribution
from aotbuild.report.sbom import SBOM_NAME, missing_library, sbom_json, timestamp_of
from aotbuild.runtime.source import DirectorySource


def check_sbom() -> None:
    """Raise PlanError if no document can be made here: now, not when everything is compiled."""
    if missing := missing_library():
        msg = f"sbom = true: {missing}"
        raise PlanError(msg)
    try:
        timestamp_of(os.environ)
    except ValueError as err:
        raise PlanError(str(err)) from err


def write_sbom(artifacts: Path, folder: Path, wheel: Distribution) -> None:
    """Write the document of an `_aot` folder into another folder, under its usual name."""
    data = sbom_json(DirectorySource(artifacts), wheel, timestamp_of(os.environ))
    (folder / SBOM_NAME).write_bytes(data)
