"""From a recording to a manifest: a new one, or an existing one with what it lacks.

Each recorded call is in the manifest that comes out, or a line says why it is not: the new text is
read by the strict reader, and each call is looked for in what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.errors import ProjectError
from aotbuild.record.counted import counted
from aotbuild.record.draft import Draft
from aotbuild.record.entries import Limits
from aotbuild.record.existing import Existing, read_existing
from aotbuild.record.files import FileChange, read_text, schema_changes, write_changes
from aotbuild.record.proposal_lines import LeftOut, left_out_lines, outside_line
from aotbuild.record.recorded_package import guess_package, is_library, top_of
from aotbuild.record.recorded_source import source_notes
from aotbuild.record.recorded_text import CannotExtend, proposed_text
from aotbuild.record.recording import RecordedFunction, Recording, Tally
from aotbuild.record.seen import Seen, Variant, same_for_a_manifest, variants_of


@dataclass(frozen=True)
class ProposalOptions:
    """What a person may decide of a proposal.

    Attributes:
        package: The import package of a new manifest; guessed if empty.
        max_buckets: A dim of more sizes is padded to at most so many.
        max_waste: The part of the work that may be padding for fewer buckets, from 0 to 1.
        minimum_calls: Signatures that were called less often are left out.
    """

    package: str = ""
    max_buckets: int = 8
    max_waste: float = 0.25
    minimum_calls: int = 1


@dataclass(frozen=True)
class Proposal:
    """A manifest as it would be, and what people are told of it. Nothing is written yet.

    Attributes:
        manifest: The path of the manifest.
        before: Its text; None if there is no such file.
        text: Its proposed text.
        lines: What was added, changed and left out, and why.
        functions: The same of each function, as plain data.
        left_out: What cannot be in it.
    """

    manifest: Path
    before: str | None
    text: str
    lines: tuple[str, ...]
    functions: tuple[dict[str, Any], ...]
    left_out: tuple[LeftOut, ...]

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write."""
        return self.text != self.before

    def to_json(self) -> dict[str, Any]:
        """Return the proposal as plain data."""
        return {
            "manifest": str(self.manifest),
            "changed": self.is_change,
            "functions": [*self.functions],
            "left_out": [each.to_json() for each in self.left_out],
            "text": self.text,
        }


class NothingToCompile(ProjectError):
    """A recording has no call that a manifest can have. Nothing was written."""

    def __init__(self, manifest: Path, lines: Sequence[str]) -> None:
        self.lines = tuple(lines)
        found = "".join(f"\n  {line}" for line in lines) or "\n  no call of a jitted function"
        super().__init__(
            str(manifest),
            "no manifest can have what was recorded\n"
            f"  expected calls of jitted functions that a module names\n  found:{found}",
            "Record a program that calls functions of your package, or name them as said above.",
        )


def update_manifest(
    recording: Recording, manifest: Path, options: ProposalOptions | None = None
) -> Proposal:
    """Return the manifest that has all calls of a recording that a manifest can have.

    Raises:
        NothingToCompile: There is no manifest yet, and nothing for it.
        ManifestError: The existing one is not valid.
        ProjectError: It is not UTF-8.
        NotAsMeant: It is written in a way that the calls cannot be added to.
        OSError: It cannot be read.
    """
    options = options or ProposalOptions()
    before = read_text(manifest)
    existing = read_existing(before, manifest)
    fixed: dict[str, str] = {}
    while True:
        draft = Draft(existing.functions, existing.unfinished, fixed) if existing else Draft({}, {})
        try:
            return _proposal(recording, manifest, options, before, existing, draft)
        except CannotExtend as err:  # its calls get another entry
            fixed[err.name] = err.reason


def _proposal(
    recording: Recording,
    manifest: Path,
    options: ProposalOptions,
    before: str | None,
    existing: Existing | None,
    draft: Draft,
) -> Proposal:
    functions = [*recording.functions.values()]
    package = options.package or _package_of(existing, recording, manifest)
    left_out, lines = _sort_out(recording, draft, options, package)
    outside = [function for function in functions if function.is_operation]
    own = [f for f in functions if not f.is_operation and not is_library(f, package)]
    lines = [*draft.lines(), *lines, *left_out_lines(left_out)]
    lines += outside_line(len(outside), _tally(recording, outside))
    if not draft.added and existing is None:
        raise NothingToCompile(manifest, lines)
    text, notes = proposed_text(before, manifest, existing, draft, package, recording)
    return Proposal(
        manifest,
        before,
        text,
        (*lines, *notes, *source_notes(own)),
        tuple(draft.to_json()),
        tuple(left_out),
    )


def write(proposal: Proposal, path: Path | None = None) -> list[Path]:
    """Write a proposal, by default to where it was made for; return the files that changed.

    A new manifest gets its schema beside it.

    All files are written, or none. ProjectError if one was changed meanwhile; OSError if one cannot
    be written.
    """
    place = path or proposal.manifest
    changes = [FileChange(place, proposal.before, proposal.text)]
    if proposal.before is None:
        changes += schema_changes(place.parent)
    return write_changes(changes)


def _package_of(existing: Existing | None, recording: Recording, manifest: Path) -> str:
    if existing and existing.model:
        return existing.model.package
    return guess_package(recording, manifest.parent)


def _sort_out(
    recording: Recording, draft: Draft, options: ProposalOptions, package: str
) -> tuple[list[LeftOut], list[str]]:
    """Put each recorded call into a draft, or among what is left out."""
    left_out, rare = [], Variant(RecordedFunction(""), ())
    limits = Limits(options.max_buckets, options.max_waste)
    mine = {k: f for k, f in recording.functions.items() if not f.is_operation}
    groups = [(group, _tally(recording, group)) for group in same_for_a_manifest(mine)]
    for group, tally in sorted(groups, key=lambda item: -item[1].seconds):
        if reason := _reason(group[-1], package, draft):
            left_out.append(LeftOut(group[-1], tally, reason))
            continue
        good, bad = variants_of(recording, group)
        kept = []
        for variant in sorted(good, key=lambda each: -each.tally.seconds):
            often, seldom = _by_calls(variant, options.minimum_calls)
            rare = Variant(rare.function, (*rare.seen, *seldom.seen))
            kept += [often] if often.seen else []
        draft.add(kept, limits)
        for variant in bad:
            draft.add_problem(variant)
    return left_out, _rare_lines(rare, options.minimum_calls)


def _reason(function: RecordedFunction, package: str, draft: Draft) -> str:
    """Return why no manifest can have a function, and what to do; empty if one can."""
    if not is_library(function, package) or draft.has(function):
        return function.problem
    library = f"{function.distribution or top_of(function)} {function.version}".strip()
    return f"it is in {library}: call what leads to it inside a jitted function of your package"


def _rare_lines(rare: Variant, minimum: int) -> list[str]:
    if not rare.seen:
        return []
    what = f"{counted(rare.tally.calls, 'call')} of {counted(len(rare.seen), 'signature')}"
    return [f"left out: {what} with less than {minimum} calls each"]


def _by_calls(variant: Variant, minimum: int) -> tuple[Variant, Variant]:
    parts: tuple[list[Seen], list[Seen]] = [], []
    for seen in variant.seen:
        # A signature that was compiled ahead may have been called never.
        parts[1 < minimum > seen.tally.calls].append(seen)
    return Variant(variant.function, tuple(parts[0])), Variant(variant.function, tuple(parts[1]))


def _tally(recording: Recording, functions: Iterable[RecordedFunction]) -> Tally:
    calls = [key for function in functions for key in recording.of(function.key)]
    return recording.tally(calls)
