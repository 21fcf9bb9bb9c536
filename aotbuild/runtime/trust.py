"""Trust policy: who demands that an index is signed or pinned, and by what.

Two parties may demand a signature: the operator, with AOTBUILD_TRUST, and the code, with `trust=`.
Both demands must be met, so neither weakens the other. With AOTBUILD_EXPECT the operator pins
digests. `runtime.seals` and `runtime.expected`, which check them, are imported only if there is
something to check.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aotbuild.format.index import Index
from aotbuild.runtime.source import Source, open_index

if TYPE_CHECKING:
    from aotbuild.runtime.seals import Key

VARIABLE = "AOTBUILD_TRUST"
EXPECT = "AOTBUILD_EXPECT"


@dataclass(frozen=True)
class TrustedIndex:
    """An index that satisfies every demand, and the ids of the demanded keys that signed it."""

    index: Index
    signers: tuple[str, ...] = ()


def open_trusted(source: Source, trust: Iterable[Key] | None, package: str | None) -> TrustedIndex:
    """Open the index of a source, and check `trust`, AOTBUILD_TRUST and AOTBUILD_EXPECT.

    `package` is the name that was asked for, or None for a path. Raises UntrustedPackage,
    UnexpectedPackage, and what `open_index` raises.
    """
    index = open_index(source)
    if EXPECT in os.environ:
        from aotbuild.runtime.expected import check_expected

        check_expected(os.environ[EXPECT], source.place, index, package)
    demanded = demanded_keys(trust)
    if not demanded:
        return TrustedIndex(index)
    from aotbuild.runtime.seals import check_signatures

    return TrustedIndex(index, check_signatures(source, index, demanded, package))


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


def demands(trust: Iterable[Key] | None) -> list[str]:
    """Return who demands that what was checked is what runs: a signature, or a digest."""
    return [*demanded_keys(trust), *([EXPECT] if EXPECT in os.environ else [])]
