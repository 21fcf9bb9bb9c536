"""AOTBUILD_EXPECT: the packages that may be loaded, each by the digest of its index.

::

    AOTBUILD_EXPECT=tinyformer@sha256:6f1e…,tinyformer_aot_cuda@sha256:09ab…

The list is closed: a package that is not in it is refused, and so is a companion of a package that
is. A package may be listed several times; then each of these digests will do. Only an index that is
opened while the variable is set is compared: this module is imported only then.
"""

from __future__ import annotations

import re

from aotbuild.errors import UnexpectedPackage
from aotbuild.format.index import Index
from aotbuild.format.layout import home_of
from aotbuild.format.values import cut

_ENTRY = r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)@(sha256:[0-9a-f]{64})"
# Characters of a malformed entry in an error, at most.
_LONGEST = 200
_FORM = "package@sha256:<64 digits>, and a comma between several"
_GET = "Install what the operator pinned. If this one is meant, pin it: {}"
_WRITE = "`aotbuild inspect` prints the digest of a package. To pin nothing, unset the variable."
_FOREIGN = "Another package's `_aot` folder is in its place: install the package again."


def check_expected(value: str, place: str, index: Index, package: str | None) -> None:
    """Raise UnexpectedPackage unless `value`, the variable's, lists an index with its digest.

    `package` is the name that was asked for, or None for a path.
    """
    pinned = read_expected(value)
    home = home_of(index.header)
    if package is not None and home != package:
        expected, found = f"the index of package {package!r}", f"the one of {home!r}"
        raise UnexpectedPackage(place, expected, found, _FOREIGN)
    found = f"{home}@{index.digest}"
    if found not in pinned:
        same = [entry for entry in pinned if entry.startswith(f"{home}@")]
        expected = " or ".join(same) or f"one of the packages {', '.join(_names(pinned))}"
        raise UnexpectedPackage(place, expected, found, _GET.format(found))


def read_expected(value: str) -> tuple[str, ...]:
    """Return the entries of the variable, as `package@sha256:…`; UnexpectedPackage if malformed."""
    entries = tuple(entry.strip() for entry in value.split(","))
    for entry in entries:
        if not re.fullmatch(_ENTRY, entry):
            where = "the environment variable AOTBUILD_EXPECT"
            found = repr(cut(entry, _LONGEST))
            raise UnexpectedPackage(where, _FORM, found, _WRITE, problem="malformed")
    return entries


def _names(pinned: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(entry.partition("@")[0] for entry in pinned))
