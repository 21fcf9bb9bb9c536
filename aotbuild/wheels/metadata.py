"""METADATA: reading and replacing its requirements; all other lines stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from email.parser import HeaderParser

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What a build adds to the project's own requirements (build.requirements).
BUILD_ADDS = ("aotbuild", "flatbuffers", "jax", "jaxlib")
_REQUIRES = "Requires-Dist"
_EXTRA = "Provides-Extra"
# What a companion copies from its base; license files stay in the base.
_SHARED = (
    "Author",
    "Author-email",
    "Maintainer",
    "Maintainer-email",
    "License",
    "License-Expression",
    "Home-page",
    "Project-URL",
    "Requires-Python",
)


def requirements(text: str) -> list[str]:
    """Return the lines of Requires-Dist, in their order."""
    return [str(line) for line in HeaderParser().parsestr(text).get_all(_REQUIRES) or []]


def extras(text: str) -> list[str]:
    """Return the extras, in their order."""
    return [str(line) for line in HeaderParser().parsestr(text).get_all(_EXTRA) or []]


def name_of(requirement: str) -> str:
    """Return the normalized name of the distribution in a line of Requires-Dist."""
    return canonicalize_name(Requirement(requirement).name)


def added_by_build(lines: Iterable[str]) -> list[str]:
    """Return the lines that a build added: unconditional requirements of what it adds."""
    return [line for line in lines if is_added_by_build(line)]


def is_added_by_build(line: str) -> bool:
    """Return whether a build wrote this line, or would have."""
    return name_of(line) in BUILD_ADDS and Requirement(line).marker is None


def with_requirements(text: str, lines: Sequence[str]) -> str:
    """Return METADATA with exactly these lines of Requires-Dist; new lines come last, sorted."""
    old = requirements(text)
    gone = [_header(_REQUIRES, line) for line in old if line not in lines]
    new = [_header(_REQUIRES, line) for line in sorted(set(lines) - set(old))]
    return _edited(text, gone, new)


def with_companions(text: str, companions: dict[str, str], version: str) -> str:
    """Return the METADATA of a base: the extra of each part's name installs its companion."""
    known, new = extras(text), []
    for part, distribution in companions.items():
        new += [] if part in known else [_header(_EXTRA, part)]
        new.append(_header(_REQUIRES, _of_extra(part, distribution, version)))
    return _edited(text, [], new)


def without_companions(text: str, companions: dict[str, str], version: str) -> str:
    """Return the METADATA of the wheel that a base was split from; undoes `with_companions`.

    Removes the extra of a part's name if it installs nothing else.
    """
    added = {part: _of_extra(part, name, version) for part, name in companions.items()}
    others = [line for line in requirements(text) if line not in added.values()]
    gone = [_header(_REQUIRES, line) for line in added.values()]
    gone += [_header(_EXTRA, part) for part in added if not _is_used(part, others)]
    return _edited(text, gone, [])


def companion_metadata(base: str, name: str, part: str) -> str:
    """Return the METADATA of a companion, which requires its base in exactly this version."""
    stated = HeaderParser().parsestr(base)
    of, version = stated["Name"], stated["Version"]
    fields = [("Metadata-Version", stated["Metadata-Version"]), ("Name", name)]
    fields += [("Version", version), ("Summary", f"Executables of {of} for {part}")]
    fields += [(key, value) for key in _SHARED for value in stated.get_all(key) or []]
    needed = [f"{of}=={version}", *added_by_build(requirements(base))]
    fields += [(_REQUIRES, line) for line in needed]
    return "".join(f"{key}: {value}\n" for key, value in fields) + "\n"


def _of_extra(part: str, distribution: str, version: str) -> str:
    return f'{distribution}=={version}; extra == "{part}"'


def _is_used(extra: str, lines: Iterable[str]) -> bool:
    markers = (str(Requirement(line).marker or "") for line in lines)
    return any(f'extra == "{extra}"' in marker for marker in markers)


def _header(name: str, value: str) -> str:
    return f"{name}: {value}"


def _edited(text: str, gone: Collection[str], new: Sequence[str]) -> str:
    """Return METADATA without some headers, and with new ones after those of their kind."""
    head, separator, body = _parts(text)
    headers = [header for header in _unfolded(head) if header not in gone]
    kinds = [header.partition(":")[0] in (_REQUIRES, _EXTRA) for header in headers]
    at = len(headers) - kinds[::-1].index(True) if True in kinds else len(headers)
    return "\n".join([*headers[:at], *new, *headers[at:]]) + separator + body


def _parts(text: str) -> tuple[str, str, str]:
    """Return the headers, the blank line, and the rest."""
    text = text.replace("\r\n", "\n")
    head, separator, body = text.partition("\n\n")
    return (head, separator, body) if separator else (text.rstrip("\n"), "\n", "")


def _unfolded(head: str) -> list[str]:
    """Return each header with its continuation lines."""
    headers: list[str] = []
    for line in head.split("\n"):
        if line.startswith((" ", "\t")) and headers:
            headers[-1] += f"\n{line}"
        else:
            headers.append(line)
    return headers
