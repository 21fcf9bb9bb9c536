"""Kept stages on the HTML page: folded texts, each once, under the executables it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aotbuild.report.facts import FunctionFacts, PackageFacts, short_label
from aotbuild.report.markup import Markup, preformatted, tag
from aotbuild.report.words import bytes_text, shown
from aotbuild.spec.layout import STAGES
from aotbuild.spec.record import Blob

_MOST_OWNERS = 4


def stage_cards(facts: PackageFacts, texts: Mapping[Blob, str]) -> list[Markup]:
    """Return a card for each function that has a text to show, with a heading before them."""
    cards = [
        tag("div", tag("h3", function.name, class_="mono"), *items, class_="card")
        for function in facts.functions
        if (items := list(_items(function, texts)))
    ]
    return [tag("h2", "Kept stages"), *cards] if cards else []


def _items(function: FunctionFacts, texts: Mapping[Blob, str]) -> Iterator[Markup]:
    for stage in STAGES:
        for blob, owners in _owners(function, stage).items():
            if blob in texts:
                names = [tag("span", name, class_="need") for name in owners[:_MOST_OWNERS]]
                more = len(owners) - _MOST_OWNERS
                names += [tag("span", f"and {more} more", class_="note")] if more > 0 else []
                title = tag("summary", f"{stage}, {bytes_text(blob.size)} ", *names)
                yield tag("details", title, tag("pre", preformatted(texts[blob])))


def _owners(function: FunctionFacts, stage: str) -> dict[Blob, list[str]]:
    """Return each different text of a stage, and whose it is."""
    found: dict[Blob, list[str]] = {}
    for signature in function.signatures:
        for record in signature.records:
            for name, blob in record.stages:
                if name == stage:
                    owner = shown(f"{short_label(signature)} {record.target}")
                    found.setdefault(blob, []).append(owner)
    return found
