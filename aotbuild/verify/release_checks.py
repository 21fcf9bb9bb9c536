"""What is wrong with the files of a release, before an index has them for good."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from aotbuild.format.layout import PYPI_LIMIT
from aotbuild.format.left_out import read_left_out
from aotbuild.format.shard import shard_note
from aotbuild.format.weights import WEIGHTS, expected_interface, from_header, interface_of
from aotbuild.verify.release import COMPARED, Metadata, Release, Sdist, Wheel
from aotbuild.verify.specifiers import normalized

_SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """Something about some of the files: a problem, or else a note.

    `check` names what was checked, as `metadata`; `reasons` are the details.
    """

    check: str
    files: tuple[Path, ...]
    problem: str
    reasons: tuple[str, ...] = ()
    remedy: str = ""
    fails: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return it as the command's document has it."""
        return {
            "check": self.check,
            "files": [str(path) for path in self.files],
            "problem": self.problem,
            "reasons": list(self.reasons),
            "remedy": self.remedy,
        }


def check_release(release: Release) -> list[Finding]:
    """Return everything that was found, problems first."""
    found = list(chain.from_iterable(check(release) for check in _CHECKS))
    return sorted(found, key=lambda finding: not finding.fails)


def _unreadable(release: Release) -> Iterator[Finding]:
    for path, reason in release.unreadable.items():
        yield Finding("file", (path,), "cannot be read as what its name says", (reason,))


def _damaged(release: Release) -> Iterator[Finding]:
    for wheel in release.wheels:
        if wheel.failures:
            problem = "a check of `aotbuild verify --no-run` fails"
            yield Finding("verify", (wheel.path,), problem, wheel.failures, "Build it again.")


def _shards(release: Release) -> Iterator[Finding]:
    for wheel in release.wheels:
        if note := shard_note(wheel.header or {}):
            remedy = "Join the wheels of all shards with `aotbuild merge`, and publish the result."
            yield Finding("shards", (wheel.path,), note, (), remedy)


def _metadata(release: Release) -> Iterator[Finding]:
    """Yield the wheels of one version whose metadata differ, and source distributions that do."""
    for project, wheels in release.projects().items():
        stated = {wheel.path: wheel.metadata for wheel in wheels}
        stated |= {s.path: s.metadata for s in release.sdists if s.metadata.project == project}
        reasons = tuple(_differences(stated))
        if reasons:
            problem = f"the files of {' '.join(project)} state different metadata"
            why = "An installer may take those of one file for all of them."
            yield Finding("metadata", tuple(stated), problem, reasons, f"{why} {_remedy(wheels)}")


def _differences(stated: Mapping[Path, Metadata]) -> Iterator[str]:
    for name in COMPARED:
        known = {path: found.fields[name] for path, found in stated.items()}
        sets = {path: lines for path, lines in known.items() if lines is not None}
        common = frozenset.intersection(*sets.values()) if sets else frozenset()
        for path, lines in sets.items():
            for line in sorted(lines - common):
                yield f"{path.name}: {name}: {line}"


def _remedy(wheels: Iterable[Wheel]) -> str:
    """Return what makes the metadata of these wheels the same."""
    extras = {wheel.metadata.fields["Provides-Extra"] for wheel in wheels}
    kinds = {wheel.fits_all for wheel in wheels}
    if any(wheel.companions for wheel in wheels) and len(extras) > 1:
        return (
            "Merge the wheels of all machines before you split them; `aotbuild split --portable` "
            "writes the portable wheel beside them."
        )
    if len(kinds) > 1:
        return (
            "List the targets of both wheels in one manifest, build once, and let `aotbuild split "
            "--portable` make the portable wheel."
        )
    return (
        "Build all of them from one pyproject.toml, with the same toolchains and kinds of targets; "
        'wheels for several versions of jax get local versions (local-version = "jax").'
    )


def _names(release: Release) -> Iterator[Finding]:
    """Yield pairs of wheels of which an installer takes either, or never one."""
    for wheels in release.projects().values():
        for one, other in combinations(sorted(wheels, key=lambda wheel: wheel.path.name), 2):
            reason = _collision(one, other)
            if reason:
                remedy = "Publish one of them, or join them with `aotbuild merge`."
                yield Finding("names", (one.path, other.path), reason, (), remedy)
    for wheel in release.wheels:
        if wheel.has_native and wheel.fits_all:
            natives = sorted({str(r.target) for r in wheel.records if not r.target.is_portable})
            problem = "it says that it fits any platform, and holds executables"
            remedy = "Build it again: a wheel with executables has the platform of its jaxlib."
            yield Finding("names", (wheel.path,), problem, _some(natives), remedy)


def _hidden(release: Release) -> Iterator[Finding]:
    """Yield wheels of a plain version beside those of its local versions."""
    projects = release.projects()
    for (name, version), wheels in projects.items():
        local = [v for n, v in projects if n == name and v.startswith(f"{version}+")]
        if local:
            problem = f"installers prefer {', '.join(local)} and never take {version}"
            remedy = "Build all wheels of the version with a local version, or none."
            yield Finding("names", tuple(w.path for w in wheels), problem, (), remedy)


def _collision(one: Wheel, other: Wheel) -> str | None:
    common = sorted("-".join(tag) for tag in one.tags & other.tags)
    if common and one.build == other.build:
        return f"both are for {', '.join(common)}: an installer takes either"
    if common:
        return f"both are for {', '.join(common)}: the higher build number hides the other"
    pairs = ((a, b) for a in one.tags for b in other.tags if a[:2] == b[:2])
    hidden = sorted({f"{a[2]} and {b[2]}" for a, b in pairs if _is_same_system(a[2], b[2])})
    if hidden:
        return f"a machine that fits {hidden[0]} takes one, and never the other"
    return None


_LEGACY = {"manylinux1": "2_5", "manylinux2010": "2_12", "manylinux2014": "2_17"}
_LINUX = re.compile(r"(manylinux_\d+_\d+|manylinux1|manylinux2010|manylinux2014|linux)_(\w+)")


def _is_same_system(one: str, other: str) -> bool:
    """Return whether two different platforms differ in the version of glibc alone."""
    found = [_LINUX.fullmatch(platform) for platform in (one, other)]
    machines = {match[2] for match in found if match}
    return all(found) and len(machines) == 1


def _sdists(release: Release) -> Iterator[Finding]:
    for sdist in release.sdists:
        if sdist.built:
            problem = "it holds what a build wrote"
            remedy = (
                'build-backend = "hatch_aotbuild.backend" leaves it out; with hatchling.build, add '
                "it to [tool.hatch.build.targets.sdist] exclude."
            )
            yield Finding("sdist", (sdist.path,), problem, _some(sdist.built), remedy)
        if sdist.absent:
            name = sdist.absent
            problem = f"it lacks the manifest {name}: a build needs it, or AOTBUILD_MANIFEST"
            yield Finding("sdist", (sdist.path,), problem)


def _some(texts: Iterable[str]) -> tuple[str, ...]:
    texts = list(texts)
    more = len(texts) - _SHOWN
    return (*texts[:_SHOWN], *([f"and {more} more"] if more > 0 else []))


_SPLIT_AGAIN = "Publish the files of one `aotbuild split` together."


def _companions(release: Release) -> Iterator[Finding]:
    """Yield companions that are missing, of another build, or without their base."""
    for wheel in release.wheels:
        for part, name in wheel.companions.items():
            same = [w for w in release.wheels if _is_companion(w, part, name)]
            if any(_belongs(w, wheel, part) for w in same):
                continue
            files = (wheel.path, *(w.path for w in same))
            if part == WEIGHTS and not same:
                problem = f"{name} is not among these files: an index must have it"
                yield Finding("companions", files, problem, fails=False)
            else:
                problem = f"its companion {name} is {'of another build' if same else 'missing'}"
                yield Finding("companions", files, problem, (), _SPLIT_AGAIN)
    bases = {wheel.split for wheel in release.wheels if wheel.companions}
    for wheel in release.wheels:
        # New weights are released without their base.
        is_part = wheel.part not in (None, WEIGHTS)
        if is_part and wheel.split not in bases:
            problem = "it is a companion, and its base is missing or of another build"
            yield Finding("companions", (wheel.path,), problem, (), _SPLIT_AGAIN)


def _is_companion(wheel: Wheel, part: str, name: str) -> bool:
    return wheel.part == part and normalized(wheel.metadata.name) == normalized(name)


def _belongs(companion: Wheel, base: Wheel, part: str) -> bool:
    """Return whether `load` takes the companion: one of the same split, or weights that fit."""
    if part != WEIGHTS:
        return bool(companion.split == base.split)
    try:
        found = interface_of(from_header(companion.header or {}))
    except ValueError:  # among its failures
        return False
    return found == expected_interface(base.header or {})


def _notes(release: Release) -> Iterator[Finding]:
    """Yield what an index, or a user, may not expect; what is true of several files once."""
    notes: dict[str, list[Path]] = {}
    for each in release.published:
        for problem in _of_file(each):
            notes.setdefault(problem, []).append(each.path)
    if release.others:
        problem = "neither a wheel nor a source distribution: indexes refuse it"
        notes[problem] = list(release.others)
    for problem, files in notes.items():
        yield Finding("notes", tuple(files), problem, fails=False)


def _of_file(each: Wheel | Sdist) -> Iterator[str]:
    size = each.path.stat().st_size
    if size > PYPI_LIMIT:
        yield f"{size / 1e6:.0f} MB; PyPI's default limit for one file is 100 MB"
    if "+" in each.metadata.version:
        yield f"PyPI refuses local versions, as {each.metadata.version}; other indexes take them"
    for line in sorted(each.metadata.fields["Requires-Dist"] or ()):
        if "@" in line.partition(";")[0]:
            yield f"PyPI refuses requirements with a URL: {line}"
    if isinstance(each, Wheel):
        if any(platform.startswith("linux_") for _, _, platform in each.tags):
            yield "PyPI refuses the platform linux_…; jaxlib's own wheels are for manylinux_…"
        yield from _left_out(each)


def _left_out(wheel: Wheel) -> Iterator[str]:
    try:
        found = read_left_out(wheel.header or {})
    except ValueError:  # among its failures
        return
    if found.count:
        yield f"{found.count} units of its manifest failed and were left out of it"


_CHECKS: tuple[Callable[[Release], Iterator[Finding]], ...] = (
    _unreadable,
    _damaged,
    _shards,
    _metadata,
    _names,
    _hidden,
    _sdists,
    _companions,
    _notes,
)
