"""What all HTML pages share: escaping, one style, and a policy that lets nothing else in.

A template escapes every value that it writes. Should one slip through all the same, the page's
Content-Security-Policy allows no script but the page's own, which it knows by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from aotbuild.report.words import printable, shown

_BEGINNING = Markup(
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="generator" content="aotbuild">'
)
# What tells a page from one that somebody else wrote.
BEGINS = re.compile(re.escape(str(_BEGINNING)).encode())
# Nobody reads a page of megabytes.
_MOST_TEXT = 20_000


def render(package: str, template: str, *helpers: Callable[..., Any], **values: Any) -> str:
    """Return a page as text, to be written as UTF-8.

    `template` is a file of the package `package`; it may call the helpers by their names. It gets
    the `beginning`, the `style` and the `script` that all pages share, and the `policy` that goes
    with them.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_printable)
    environment.globals.update({helper.__name__: helper for helper in helpers})
    environment.filters["lines"] = lambda text: Markup("\n").join(
        escape(printable(line)) for line in text.split("\n")
    )
    style, script = (_file(__package__, f"page.{kind}") for kind in ("css", "js"))
    page = environment.from_string(_file(package, template))
    shared = {"style": style, "script": script, "policy": _policy(script)}
    return page.render(beginning=_BEGINNING, **shared, **values)


def _file(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text("utf-8")


def _printable(value: Any) -> Any:
    """Return a value as printable text; autoescape then turns it into HTML."""
    return value if isinstance(value, Markup) else shown(str(value), limit=_MOST_TEXT)


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
