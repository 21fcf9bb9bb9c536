"""The pages of the documentation, and the manifests in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from support.processes import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def yaml_manifests() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for indent, language, body in FENCE.findall(text_of(page)):
            if language == "yaml" and re.search(r"^ *version: 1$", body, re.MULTILINE):
                yield name_of(page), re.sub(f"^{indent}", "", body, flags=re.MULTILINE)


MANIFESTS = list(yaml_manifests())
