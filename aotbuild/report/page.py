"""One self-contained HTML page about a package: it sends no request and runs no foreign code.

The template escapes every value that it writes. Should one slip through all the same, the page's
Content-Security-Policy allows no script but the page's own, which it knows by its digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from aotbuild.report.document import call_text, pad_text, requirement_words
from aotbuild.report.facts import PackageFacts, constants, short_label, targets, total_size
from aotbuild.report.text import avals_text, setting_rows
from aotbuild.report.words import (
    bytes_accessed,
    bytes_text,
    count_text,
    flops,
    peak_memory,
    peak_text,
    plural,
    shown,
)

_BADGES = ("aotbuild", "jax", "jaxlib", "fallback")
# With more functions than this, the tables of executables are folded.
_OPEN_FUNCTIONS = 12
# Limits on what is written out: nobody reads a page of megabytes.
_MOST_AVALS = 500
_MOST_TEXT = 20_000

_HELPERS = (
    *(short_label, call_text, pad_text, requirement_words, avals_text, plural),
    *(bytes_text, count_text, flops, bytes_accessed, peak_memory, peak_text),
)


def page_html(facts: PackageFacts) -> str:
    """Return the page as text, to be written as UTF-8."""
    script = _file("page.js")
    return render(
        "page.html",
        script,
        facts=facts,
        badges=[(name, shown(facts.header[name])) for name in _BADGES if name in facts.header],
        tiles=list(_tiles(facts)),
        functions_are_open=len(facts.functions) <= _OPEN_FUNCTIONS,
        most_avals=_MOST_AVALS,
        constants=list(constants(facts)),
        settings=setting_rows(facts),
        **{helper.__name__: helper for helper in _HELPERS},
    )


def render(template: str, script: str = "", **values: Any) -> str:
    """Return a template of this folder with `values`, and with the style and a script."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_printable)
    environment.globals.update(values)
    return environment.from_string(_file(template)).render(
        style=_file("page.css"), script=script, policy=_policy(script)
    )


def _tiles(facts: PackageFacts) -> Iterator[tuple[str, str, str]]:
    """Yield (title, value, note) of each figure at the top of the page."""
    peaks = [peak for record in facts.records if (peak := peak_memory(record)) is not None]
    yield "on disk", bytes_text(total_size(facts)), "index and blobs"
    yield "executables", str(len(facts.records)), f"for {plural(len(targets(facts)), 'target')}"
    yield "functions", str(len(facts.functions)), plural(facts.signature_count, "signature")
    yield "peak memory", bytes_text(max(peaks, default=None)), "of the largest executable"


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _printable(value: Any) -> Any:
    """Return a value as printable text; autoescape then turns it into HTML."""
    return value if isinstance(value, Markup) else shown(str(value), limit=_MOST_TEXT)


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
