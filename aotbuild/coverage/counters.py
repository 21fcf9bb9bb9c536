"""The counters of production: `Library.stats()` as JSON, with calls by function and signature."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.coverage.package import PackageServing
from aotbuild.coverage.result import Called, Serving, State, best
from aotbuild.errors import InvalidRecording
from aotbuild.format.aval import Aval
from aotbuild.format.files import open_regular, read_regular
from aotbuild.format.signature import Signature
from aotbuild.record.recording import Tally
from aotbuild.report.facts import FunctionFacts, SignatureFacts
from aotbuild.report.words import plural
from aotbuild.runtime.events import describe

# More than any number of calls.
_MOST = 1 << 53
_AVAL = re.compile(r"~?[a-z0-9_]+(?:<[a-z]+>)?\[[0-9,]*\](?:, |\Z)")


@dataclass(frozen=True)
class Counters:
    """Calls of a package's functions, by function and signature, as `Library.stats()` has them.

    `refused` is the number of calls that nothing served, or that a fallback served.
    """

    place: Path
    calls: Mapping[str, Mapping[str, int]]
    refused: int = 0


def is_counters(path: Path) -> bool:
    """Return whether a file is JSON of another kind than the first line of a recording."""
    with open_regular(path) as file:
        return b'"kind":"recording"' not in file.readline(1000)


def read_counters(path: Path, package: str) -> Counters:
    """Return the counters of a package in a file: of one library, or of several by package.

    InvalidRecording if the file has none; OSError if it cannot be read.
    """
    try:
        found: Any = json.loads(read_regular(path))
    except (ValueError, RecursionError) as err:
        raise InvalidRecording(str(path), f"no JSON: {err}") from err
    if isinstance(found, dict) and "calls" not in found and package in found:
        found = found[package]
    calls = found.get("calls") if isinstance(found, dict) else None
    if calls is None or not _are_counts(calls):
        what = "counters without calls" if isinstance(found, dict) else type(found).__name__
        raise InvalidRecording(str(path), what)
    refused = found.get("refused", 0)
    return Counters(path, calls, refused if _is_count(refused) else 0)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _are_counts(calls: Any) -> bool:
    return isinstance(calls, dict) and all(
        isinstance(counts, dict) and all(_is_count(count) for count in counts.values())
        for counts in calls.values()
    )


def called(counters: Counters, package: PackageServing) -> Iterator[Called]:
    """Yield each signature that was counted, and what of a package serves it."""
    functions = {function.name: function for function in package.facts.functions}
    for name, counts in counters.calls.items():
        facts = functions.get(name)
        if facts is None:
            nothing = Serving(State.MISSING, reasons=(f"the package has no function {name}",))
            yield from (Called(name, "", t, Tally(n), nothing) for t, n in counts.items())
            continue
        # A call of a function may have run one of its overloads.
        names = (name, *facts.function.overloads)
        known = [(f, _by_text(f)) for each in names if (f := functions.get(each))]
        for text, count in counts.items():
            found = [(f.name, _serving(package, f, text, texts)) for f, texts in known]
            served_by, serving = best(found, "")
            yield Called(facts.function.call, served_by, text, Tally(count), serving)


def notes(counters: Counters) -> Iterator[str]:
    """Yield what the counters say of calls that have no signature."""
    if counters.refused:
        yield f"{counters.place}: {plural(counters.refused, 'call')} had no executable"


def _by_text(facts: FunctionFacts) -> dict[str, SignatureFacts]:
    found: dict[str, SignatureFacts] = {}
    for each in facts.signatures:
        found.setdefault(describe(each.records[0].signature), each)
    return found


def _serving(
    package: PackageServing, facts: FunctionFacts, text: str, known: Mapping[str, SignatureFacts]
) -> Serving:
    avals, statics = _parsed(text)
    # The trees are not in the text: those of each compiled signature are tried.
    tried = [known[text]] if text in known else _alike(avals, statics, known)
    signatures = [
        Signature(own.tree, avals, own.statics)
        for own in (each.records[0].signature for each in tried)
    ]
    for signature in signatures:
        for serving in package.candidates(facts, signature):
            return serving
    if signatures:
        return Serving(State.MISSING, reasons=package.differences(facts, signatures[0]))
    reason = "no signature with so many arrays and these static values is compiled"
    return Serving(State.MISSING, reasons=(reason,))


def _alike(
    avals: tuple[Aval, ...], statics: str, known: Mapping[str, SignatureFacts]
) -> list[SignatureFacts]:
    """Return the signatures with as many arrays and the same static values."""
    return [
        each
        for text, each in known.items()
        if len(each.records[0].signature.leaves) == len(avals) and _parsed(text)[1] == statics
    ]


def _parsed(text: str) -> tuple[tuple[Aval, ...], str]:
    """Return the avals that a text begins with, and the rest of it."""
    avals = []
    while match := _AVAL.match(text):
        try:
            avals.append(Aval.parse(match[0].removesuffix(", ")))
        except ValueError:
            break
        text = text[match.end() :]
    return tuple(avals), text
