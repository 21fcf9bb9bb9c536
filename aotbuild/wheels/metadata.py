"""METADATA of wheels: its requirements, read, replaced and joined."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from aotbuild.build.wheel_metadata import ELSEWHERE, exactly, pins
from aotbuild.format.layout import part_distribution
from aotbuild.format.record import Record
from aotbuild.format.target import ON_LINUX
from aotbuild.platforms.base import names
from aotbuild.platforms.building import description

# What a build adds to the project's own requirements (build.wheel_metadata).
BUILD_ADDS = ("aotbuild", "flatbuffers", "jax", "jaxlib")
_PINNED = ("jax", "jaxlib")
_CONDITIONS = (ON_LINUX, ELSEWHERE)
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


def problems(text: str) -> Iterator[str]:
    """Yield why METADATA cannot be edited: all who read it must read the same."""
    if "\r" in text.replace("\r\n", "\n"):
        yield "METADATA: a line ends with a carriage return alone"
    if HeaderParser().parsestr(text).defects:
        yield "METADATA: a line before the description is no header"
    for line in requirements(text):
        try:
            Requirement(line)
        except InvalidRequirement as err:
            yield f"METADATA: {_REQUIRES}: {line!r}: {str(err).partition(chr(10))[0]}"


def requirements(text: str) -> list[str]:
    """Return the lines of Requires-Dist, in their order."""
    return [str(line) for line in HeaderParser().parsestr(text).get_all(_REQUIRES) or []]


def name_of(requirement: str) -> str:
    """Return the normalized name of the distribution in a line of Requires-Dist."""
    return canonicalize_name(Requirement(requirement).name)


def is_added_by_build(line: str) -> bool:
    """Return whether a build writes such a line."""
    marker = Requirement(line).marker
    return name_of(line) in BUILD_ADDS and (marker is None or str(marker) in _CONDITIONS)


def with_requirements(text: str, lines: Sequence[str]) -> str:
    """Return METADATA with exactly these lines of Requires-Dist; new lines come last, sorted."""
    old = requirements(text)
    new = [f"{_REQUIRES}: {line}" for line in sorted(set(lines) - set(old))]
    return _edited(text, new, set(old) - set(lines))


@dataclass(frozen=True)
class Companion:
    """What a base installs for a family of targets, by the extra of the family's name.

    `plugins` are the exact requirements of the family's plugins, which the companion has; with
    `libraries` the extra of the base also brings what they load.
    """

    part: str
    distribution: str
    plugins: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @classmethod
    def of(cls, part: str, base: str, records: Iterable[Record]) -> Companion:
        """Return the companion of a base for these records, which are all of its family."""
        needed: dict[tuple[str, str | None], set[str]] = {}
        for record in records:
            if record.requires.plugin is not None and part in names():
                plugin, version = record.requires.plugin
                needed.setdefault(description(part).distribution_of(plugin), set()).add(version)
        pinned = [
            (*known, exactly(versions)) for known, versions in sorted(needed.items(), key=str)
        ]
        plugins = tuple(f"{name}{versions}" for name, _, versions in pinned)
        libraries = tuple(f"{name}[{extra}]{versions}" for name, extra, versions in pinned if extra)
        return cls(part, part_distribution(base, part), plugins, libraries)

    def lines(self, version: str) -> list[str]:
        """Return the requirements that the extra of a base in this version stands for."""
        needed = (f"{self.distribution}=={version}", *self.libraries)
        return [f'{text}; extra == "{self.part}"' for text in needed]


def with_companions(text: str, companions: Iterable[Companion], version: str) -> str:
    """Return the METADATA of a base: the extra of each part's name installs its companion."""
    known, new = HeaderParser().parsestr(text).get_all(_EXTRA) or [], []
    for companion in companions:
        new += [] if companion.part in known else [f"{_EXTRA}: {companion.part}"]
        new += [f"{_REQUIRES}: {line}" for line in companion.lines(version)]
    return _edited(text, new)


def companion_metadata(base: str, companion: Companion) -> str:
    """Return the METADATA of a companion, which requires its base in exactly this version."""
    name, part = companion.distribution, companion.part
    stated = HeaderParser().parsestr(base)
    of, version = stated["Name"], stated["Version"]
    fields = [("Metadata-Version", stated["Metadata-Version"]), ("Name", name)]
    fields += [("Version", version), ("Summary", f"Executables of {of} for {part}")]
    fields += [(key, value) for key in _SHARED for value in stated.get_all(key) or []]
    added = filter(is_added_by_build, requirements(base))
    needed = [f"{of}=={version}", *added, *companion.plugins]
    fields += [(_REQUIRES, line) for line in needed]
    return "".join(f"{key}: {value}\n" for key, value in fields) + "\n"


def joined_requirements(
    wheels: Mapping[str, Sequence[str]],
    versions: Mapping[str, str],
    *,
    native: bool,
    portable: bool,
) -> tuple[list[str], list[str]]:
    """Return the joined requirements, and the contradictions between them.

    The project's own lines must be equal. Lines added by builds are united. If those of jax or
    jaxlib differ, they become those of a build of everything: with all `versions` (as the index's
    header lists them), and with `native` executables and `portable` forms as there are.
    """
    (_, first), *others = wheels.items()
    own = [line for line in first if not is_added_by_build(line)]
    problems = []
    for path, lines in others:
        differing = set(own) ^ {line for line in lines if not is_added_by_build(line)}
        if differing:
            shown = ", ".join(sorted(differing))
            problems.append(f"{path}: the project's own requirements differ: {shown}")
    added = dict.fromkeys(line for lines in wheels.values() for line in lines if line not in own)
    by_name: dict[str, list[str]] = {}
    for line in added:
        by_name.setdefault(name_of(line), []).append(line)
    for name in _PINNED:
        lines = by_name.get(name, [])
        if all(set(lines) <= set(each) or not set(lines) & set(each) for each in wheels.values()):
            continue
        if name not in versions:
            problems.append(f"{', '.join(sorted(lines))}: the indexes do not say their {name}")
        else:
            known = versions[name].split(", ")
            by_name[name] = pins(name, known, native=native, portable=portable)
    return [*own, *(line for lines in by_name.values() for line in lines)], problems


def _edited(text: str, new: Sequence[str], without: Collection[str] = ()) -> str:
    """Return METADATA with new headers after those of their kind, `without` some requirements.

    A header keeps its continuation lines. `email` itself would write it encoded and folded anew.
    """
    stated = HeaderParser().parsestr(text.replace("\r\n", "\n"))
    kinds = (_REQUIRES.lower(), _EXTRA.lower())
    headers: list[str] = []
    at = 0
    for name, value in stated.items():
        if name.lower() != _REQUIRES.lower() or value not in without:
            headers.append(f"{name}: {value}")
            at = len(headers) if name.lower() in kinds else at
    at = at or len(headers)
    return "\n".join([*headers[:at], *new, *headers[at:]]) + f"\n\n{stated.get_payload()}"
