"""Trust policy: who demands that an index is signed, and by which keys.

Two parties may demand a signature: the operator, with AOTBUILD_TRUST, and the code, with `trust=`.
Both demands must be met, so neither weakens the other. `runtime.seals`, which checks them, is
imported only if there is one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aotbuild.runtime.source import Source, open_index
from aotbuild.spec.index import Index

if TYPE_CHECKING:
    from aotbuild.runtime.seals import Key

VARIABLE = "AOTBUILD_TRUST"


def open_trusted(source: Source, trust: Iterable[Key] | None, package: str | None) -> Index:
    """Open the index of a source, and check that it satisfies `trust` and AOTBUILD_TRUST.

    `package` is the name that was asked for, or None for a path. Raises UntrustedPackage, and what
    `open_index` raises.
    """
    index = open_index(source)
    demanded = demanded_keys(trust)
    if demanded:
        from aotbuild.runtime.seals import check_signatures

        check_signatures(source, index, demanded, package)
    return index


def demanded_keys(
    trust: Iterable[Key] | None, origin: str = "trust=", *, operator: bool = True
) -> dict[str, Iterable[Key]]:
    """Return the keys of each party that demands a signature; `origin` names the code in errors.

    Without `operator`, AOTBUILD_TRUST is ignored.
    """
    demanded: dict[str, Iterable[Key]] = {}
    if operator and VARIABLE in os.environ:
        demanded[VARIABLE] = os.environ[VARIABLE].split(os.pathsep)
    if trust is not None:
        demanded[origin] = trust
    return demanded
