"""Trust: whose signature an index must carry before anything in it is used.

Two parties may demand one: whoever runs the process, by AOTBUILD_TRUST, and the code, by `trust=`.
Both must be content, so neither weakens the other. What they demand is read and checked in
`runtime.demands`, which nobody imports where nothing is demanded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeAlias

from aotbuild.runtime.source import Source, open_index
from aotbuild.spec.index import Index

# The path of a public key in PEM, or the PEM itself.
Key: TypeAlias = str | os.PathLike[str] | bytes

VARIABLE = "AOTBUILD_TRUST"


def open_trusted(source: Source, trust: Iterable[Key] | None, package: str | None) -> Index:
    """Open the index of a source, and check that it satisfies `trust` and AOTBUILD_TRUST.

    `package` is the name that was asked for, if one was. UntrustedPackage, or what opening raises.
    """
    index = open_index(source)
    if is_demanded(trust):
        from aotbuild.runtime.demands import check_demands

        check_demands(source, index, trust, package)
    return index


def is_demanded(trust: Iterable[Key] | None) -> bool:
    """Return whether anybody demands a signature."""
    return trust is not None or VARIABLE in os.environ
