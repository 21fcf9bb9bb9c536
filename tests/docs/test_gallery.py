"""The gallery shows programs of the zoo, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.doc_pages import DOCS, FENCE, name_of, text_of
from support.zoo import PROGRAMS, find_programs

# Pages of programs that are not in the zoo: those of others, recorded.
_OTHERS = ("index", "recorded")
PAGES = [page for page in sorted((DOCS / "gallery").glob("*.md")) if page.stem not in _OTHERS]
PLACE = re.compile(r"<!-- zoo: (\w+) -->")
# In a block of code: what the page leaves out.
GAP = re.compile(r"\n+# …\n+")
# In a row of a table: the function, and what was seen on each version.
ROW = re.compile(r"\| `(\w+\.\w+)` \| ([^|]+) \| ([^|]+) \|")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path in the first line of each block that has one, and the rest of the block."""
    for _, _, body in FENCE.findall(text):
        first, _, rest = body.partition("\n")
        if re.fullmatch(r"# [\w/]+\.\w+", first):
            yield first.removeprefix("# "), rest


def differences(page: Path) -> Iterator[str]:
    """Yield how a page differs from its programs; what it shows of one is before its table."""
    head, *parts = PLACE.split(text_of(page))
    names, texts = parts[::2], [head, *parts[1::2]]
    texts[-2:] = ["".join(texts[-2:])]
    if "aot.yaml" not in dict(blocks(texts[0])):
        yield "no manifest"
    for name, text in zip(names, texts, strict=True):
        yield from _differences(name, dict(blocks(text)))


def _differences(program: str, shown: dict[str, str]) -> Iterator[str]:
    for path, body in shown.items():
        text = (PROGRAMS / program / path).read_text(encoding="utf-8")
        if path == "aot.yaml" and body != text:
            yield "another manifest"
        yield from (part for part in GAP.split(body) if part.strip("\n") not in text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_show_a_program_of_the_zoo(page: Path) -> None:
    assert list(differences(page)) == []


def test_another_program_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = text_of(DOCS / "gallery" / "haiku.md")
    page.write_text(text.replace("def train_step(", "def train_stop("))
    (found,) = differences(page)
    assert "def train_stop(" in found


def test_programs_say_of_themselves_only_what_is_known() -> None:
    keys = {"part", "fails", "missing", "tolerance"}
    assert {p.name: set(p.known) - keys for p in find_programs() if set(p.known) - keys} == {}


def test_tables_name_programs_that_there_are() -> None:
    known = {program.name for program in find_programs()} | {"all"}
    assert {name for page in PAGES for name in PLACE.findall(text_of(page))} <= known


@pytest.mark.parametrize("page", [DOCS / "gallery" / "index.md", *PAGES], ids=name_of)
def test_tables_have_every_function_and_what_was_seen(page: Path) -> None:
    rows = ROW.findall(text_of(page))
    known = find_programs()
    shown = PLACE.findall(text_of(page))
    programs = known if shown == ["all"] else [p for name in shown for p in known if p.name == name]
    assert [row[0] for row in rows] == [f"{p.name}.{f}" for p in programs for f in p.functions]
    assert [row for row in rows if "not run" in row[1:]] == []
