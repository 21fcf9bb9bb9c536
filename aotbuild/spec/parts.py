"""Parts: a package whose executables are in several wheels, and what the headers say of it.

`aotbuild split` leaves a *base*, with the code, and makes *companions*, each with the executables
of one family of targets. All of them say under `split` which index they were cut from: two parts
belong together if these digests are equal. The base names its companions, so that nothing else is
looked for; a companion names its part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aotbuild.spec.text import cut

# Keys of the index's header. Each part has the first, a base the second, a companion the third.
SPLIT = "split"
COMPANIONS = "companions"
PART = "part"

# The entry points of companions: named like the base's import package, they name their own.
ENTRY_POINTS = "aotbuild.companions"

# https://packaging.python.org/en/latest/specifications/name-normalization/
_DISTRIBUTION = r"(?ai)[A-Z0-9]([A-Z0-9._-]{0,254}[A-Z0-9])?"
_LONGEST = 200


def part_package(package: str, part: str) -> str:
    """Return the import package that holds the `_aot` folder of a companion."""
    return f"{package.replace('.', '_')}_aot_{part}"


def part_distribution(distribution: str, part: str) -> str:
    """Return the name of a companion's distribution, as `pip install` takes it."""
    return f"{distribution}-aot-{part}"


def home_of(header: Mapping[str, Any]) -> str | None:
    """Return the import package whose `_aot` folder an index belongs in; None if it names none."""
    package, part = header.get("package"), header.get(PART)
    if package is None:
        return None
    return str(package) if part is None else part_package(str(package), str(part))


def companions_of(header: Mapping[str, Any]) -> dict[str, str]:
    """Return the distribution of each part that a base lacks; ValueError if that is not said so."""
    found = header.get(COMPANIONS, {})
    is_known = isinstance(found, dict) and all(map(_is_distribution, found.values()))
    if not is_known or not all(part.isidentifier() for part in found):
        shown = cut(repr(found), _LONGEST)
        msg = f"header: {COMPANIONS}: expected a distribution for each part, found {shown}"
        raise ValueError(msg)
    return dict(found)


def _is_distribution(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(_DISTRIBUTION, name) is not None


def whole_header(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `write_index` was given for a package that is in one piece."""
    written = {SPLIT, COMPANIONS, PART, "objects", "rows"}
    return {key: value for key, value in header.items() if key not in written}
