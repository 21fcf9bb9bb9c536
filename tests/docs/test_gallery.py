"""The gallery shows programs of the zoo, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.doc_pages import DOCS, FENCE, name_of, text_of
from support.zoo import PROGRAMS, find_programs

INDEX = DOCS / "gallery" / "index.md"
PAGES = [page for page in sorted((DOCS / "gallery").glob("*.md")) if page != INDEX]
PLACE = re.compile(r"<!-- zoo: (\w+) -->")
# In a block of code: what the page leaves out.
GAP = re.compile(r"\n+# …\n+")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path in the first line of each block that has one, and the rest of the block."""
    for _, _, body in FENCE.findall(text):
        first, _, rest = body.partition("\n")
        if re.fullmatch(r"# [\w/]+\.\w+", first):
            yield first.removeprefix("# "), rest


def differences(page: Path) -> Iterator[str]:
    """Yield how a page differs from the program that it shows."""
    text = text_of(page)
    [name] = PLACE.findall(text)
    shown = dict(blocks(text))
    if "aot.yaml" not in shown:
        yield "no manifest"
    for path, body in shown.items():
        source = text_of(PROGRAMS / name / path)
        if path == "aot.yaml" and body != source:
            yield "another manifest"
        yield from (part for part in GAP.split(body) if part.strip("\n") not in source)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_show_a_program_of_the_zoo(page: Path) -> None:
    assert list(differences(page)) == []


def test_the_table_has_every_program() -> None:
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| (\d+) \|", text_of(INDEX), re.MULTILINE)
    programs = {program.name: len(program.functions) for program in find_programs()}
    assert {name: int(count) for name, count in rows} == programs


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_have_every_function(page: Path) -> None:
    text = text_of(page)
    [name] = PLACE.findall(text)
    [program] = [program for program in find_programs() if program.name == name]
    assert re.findall(rf"^\| `{name}\.(\w+)` \|", text, re.MULTILINE) == program.functions
