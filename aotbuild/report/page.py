"""One self-contained HTML page about a package: no request leaves it, and no name runs in it.

Names are escaped where they are written (`markup`). Should one slip through all the same, the
page's Content-Security-Policy runs no script but its own, which it knows by its digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files

from aotbuild.report.charts import charts, color, coverage
from aotbuild.report.facts import PackageFacts, columns, stored_twice, total_size
from aotbuild.report.markup import Markup, join, tag, trusted
from aotbuild.report.sections import constants_card, function_card, measured_card, settings_card
from aotbuild.report.stage_cards import stage_cards
from aotbuild.report.text import covers, stages_text
from aotbuild.report.words import bytes_text, peak_memory, plural, shown
from aotbuild.spec.layout import HEADER_KEY
from aotbuild.spec.record import Blob

_OPEN_FUNCTIONS = 12


def page_html(facts: PackageFacts, texts: Mapping[Blob, str] | None = None) -> str:
    """Return the page as text, to be written as UTF-8; `texts` are kept stages to show on it."""
    style, script = (
        files(__package__).joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js")
    )
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{facts.name} · aotbuild"),
        tag("style", trusted(style)),
    )
    body = (tag("main", *_sections(facts, texts or {})), tag("script", trusted(script)))
    page = tag("html", tag("head", *head), tag("body", *body), lang="en")
    return f"<!doctype html>\n{page}\n"


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _sections(facts: PackageFacts, texts: Mapping[Blob, str]) -> list[Markup]:
    source = "Read from the index and the kept stages" if texts else "Read from the index alone"
    is_open = len(facts.functions) <= _OPEN_FUNCTIONS
    hoisted, names = constants_card(facts), columns(facts)
    measured = measured_card(facts)
    return [
        _header(facts),
        _tiles(facts),
        tag("h2", "Cost by function and target"),
        _legend(facts),
        tag("div", *charts(facts), class_="charts"),
        tag("h2", "Coverage"),
        tag("div", coverage(facts), class_="card"),
        tag("h2", "Functions"),
        *(function_card(function, names, is_open) for function in facts.functions),
        *stage_cards(facts, texts),
        *((tag("h2", "Hoisted constants"), hoisted) if hoisted else ()),
        *((tag("h2", "Measured for startup: tuned"), measured) if measured else ()),
        tag("h2", "Toolchain and settings"),
        settings_card(facts),
        tag(
            "footer",
            f"{source} by aotbuild inspect; nothing was imported or run. ",
            "FLOPs, bytes moved and peak memory are XLA’s estimates for one device.",
        ),
    ]


def _header(facts: PackageFacts) -> Markup:
    names = ("aotbuild", "jax", "jaxlib", "fallback")
    kept = [("stages", stages_text(facts))] if HEADER_KEY in facts.header else []
    known = [(name, shown(facts.header[name])) for name in names if name in facts.header]
    badges = [
        tag("span", f"{name} ", tag("b", value), class_="badge") for name, value in (*known, *kept)
    ]
    place = tag("p", facts.place, class_="soft mono")
    return tag("header", tag("h1", facts.name), place, *badges)


def _tiles(facts: PackageFacts) -> Markup:
    saved = stored_twice(facts)
    peaks = [peak for record in facts.records if (peak := peak_memory(record)) is not None]
    signatures = [signature for function in facts.functions for signature in function.signatures]
    natives = sum(any(not r.target.is_portable for r in s.records) for s in signatures)
    names = columns(facts)
    full = sum(all(covers(s, name) for name in names) for s in signatures)
    tiles = (
        (
            "on disk",
            bytes_text(total_size(facts)),
            f"{bytes_text(saved)} shared" if saved else "index and blobs",
        ),
        ("executables", str(len(facts.records)), f"for {plural(len(names), 'platform')}"),
        ("functions", str(len(facts.functions)), plural(len(signatures), "signature")),
        ("native", _fraction(natives, len(signatures)), "signatures that need no compiling"),
        ("covered", _fraction(full, len(signatures)), "signatures made for every target"),
        ("peak memory", bytes_text(max(peaks, default=None)), "of the largest executable"),
    )
    return tag("div", *(_tile(*words) for words in tiles), class_="tiles")


def _fraction(part: int, whole: int) -> str:
    """Return `7/8`, or a rounded down percentage where that would be long."""
    return f"{part}/{whole}" if whole < 1000 else f"{part * 100 // whole}%"


def _tile(title: str, value: str, note: str) -> Markup:
    parts = (
        tag("div", title, class_="note"),
        tag("div", value, class_="value"),
        tag("div", note, class_="note"),
    )
    return tag("div", *parts, class_="tile")


def _legend(facts: PackageFacts) -> Markup:
    items = (
        tag("span", tag("i", style=f"background:{color(at)}"), name)
        for at, name in enumerate(columns(facts))
    )
    return tag("div", join(items), class_="legend")
