"""What the wheels of a merge say of themselves: tags, versions, kept stages, as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from packaging.version import InvalidVersion, Version

from aotbuild.spec.stages import HEADER_KEY

_VERSIONS = ("aotbuild", "jax", "jaxlib")
_SEPARATOR = ", "


def joined_header(headers: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Return one header for the index, and what contradicts each other in several."""
    joined: dict[str, Any] = {}
    problems = []
    for key in sorted({key for header in headers for key in header}):
        values = [header[key] for header in headers if key in header]
        if key in _VERSIONS:
            joined[key] = _join_versions(map(str, values))
        elif any(value != values[0] for value in values):
            shown = " and ".join(sorted({repr(value) for value in values}))
            what = "keep: where" if key == HEADER_KEY else key
            problems.append(f"the indexes differ in {what}: {shown}")
        else:
            joined[key] = values[0]
    return joined, problems


def joined_tag(tags: Iterable[str]) -> str | None:
    """Return the compressed tag of several, as `py3-none-a.b`; None if no tag says just these."""
    sets = [[part.split(".") for part in tag.split("-")] for tag in tags]
    wanted = {single for parts in sets for single in product(*parts)}
    columns = [sorted(set(column)) for column in zip(*wanted, strict=True)]
    if wanted != set(product(*columns)):
        return None
    return "-".join(".".join(column) for column in columns)


def with_tags(text: str, tag: str) -> str:
    """Return a WHEEL whose lines `Tag` are those of a compressed tag."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    kept = [line for line in lines if not line.startswith("Tag:")]
    tags = product(*(part.split(".") for part in tag.split("-")))
    return "\n".join([*kept, *(f"Tag: {'-'.join(single)}" for single in tags), ""])


def _join_versions(texts: Iterable[str]) -> str:
    versions = {version for text in texts for version in text.split(_SEPARATOR) if version}
    return _SEPARATOR.join(sorted(versions, key=_order))


def _order(version: str) -> tuple[Version, str]:
    try:
        return Version(version), version
    except InvalidVersion:
        return Version("0"), version
