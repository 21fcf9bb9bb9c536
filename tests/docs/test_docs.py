"""The documents: links lead somewhere, examples parse, and nothing public is left out."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from support.doc_pages import DOCS, FENCE, MANIFESTS, PAGES, name_of, text_of
from support.processes import ROOT

import aotbuild
from aotbuild import errors
from aotbuild.cli.app import COMMANDS
from aotbuild.cli.command import Command
from aotbuild.manifest import parse_manifest

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
VARIABLE = re.compile(r"\bAOTBUILD_[A-Z]+\b")
# A line of a list or a table.
BLOCK = r"([-*|]|1\.) "
# How the docs name files outside of docs/, which are not on the site.
SOURCE = re.compile(r"https://github\.com/aotbuild/aotbuild/(?:blob|tree)/main/")


def prose(page: Path) -> str:
    return FENCE.sub("", text_of(page))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as code hosts make them."""
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(prose(page)))
    return {title.strip().replace(" ", "-") for title in titles}


def named_commands() -> Iterator[tuple[str, Command]]:
    """Yield each command with what is typed for it, as `store prune`."""
    for each in COMMANDS:
        if isinstance(each, Command):
            yield each.name, each
        else:
            yield from ((f"{each.name} {command.name}", command) for command in each.commands)


def broken_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(prose(page)):
        path, _, anchor = SOURCE.sub(f"{ROOT}/", link).partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{link}: no such file"
        elif anchor and anchor not in anchors(target):
            yield f"{link}: no such heading"


def variables_of_sources() -> set[str]:
    files = [*(ROOT / "aotbuild").rglob("*.py"), *(ROOT / "hatch_plugin").rglob("*.py")]
    return {name for file in files for name in VARIABLE.findall(text_of(file))}


NAMED = dict(named_commands())
ERRORS = sorted(
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.AotbuildError)
)
TEXTS = sorted((ROOT / "tests" / "error_texts").glob("*.txt"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](gone.md) [b](#one-two) [c](#three) [d](https://e.org)\n")
    assert list(broken_links(page)) == ["gone.md: no such file", "#three: no such heading"]


def test_the_nav_of_the_site_leads_to_every_page() -> None:
    nav = text_of(ROOT / "mkdocs.yml").partition("\nnav:\n")[2]
    assert sorted(re.findall(r"[\w/-]+\.md", nav)) == sorted(
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")
    )


def test_every_name_of_the_api_reference_is_there() -> None:
    names = re.findall(r"^::: (\S+)$", text_of(DOCS / "reference" / "api.md"), re.MULTILINE)
    assert {f"aotbuild.{name}" for name in aotbuild.__all__ if name[0] != "_"} <= set(names)
    assert [name for name in names if pydoc.locate(name) is None] == []


def not_markdown_everywhere(page: Path) -> Iterator[str]:
    """What code hosts render, but the site's Markdown takes for a part of the paragraph."""
    lines = [line for line in prose(page).splitlines() if not line.startswith("    ")]
    for before, line in pairwise(["", *lines]):
        if re.match(BLOCK, line) and before and not re.match(rf"{BLOCK}|[#|]|  ", before):
            yield f"no empty line before: {line}"
    for indent, _, _ in FENCE.findall(text_of(page)):
        if len(indent) % 4:
            yield f"a code block in a list has 4 spaces, not {len(indent)}"


@pytest.mark.parametrize("page", PAGES[1:], ids=name_of)
def test_a_page_reads_the_same_on_the_site(page: Path) -> None:
    assert list(not_markdown_everywhere(page)) == []
    assert "```mermaid" not in text_of(page)  # the theme would load it from another host


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_has_a_section(name: str) -> None:
    page = text_of(DOCS / "reference" / "errors.md")
    _, heading, after = page.partition(f"\n## {name}\n")
    assert heading
    section = after.partition("\n## ")[0]
    assert "```" in section
    assert "do:" in " ".join(section.split())
    assert name == "AotbuildError" or f"| [`{name}`](#{name.lower()}) |" in page
    attributes = re.findall(r"self\.(\w+)(?:: [^=]+)? = ", inspect.getsource(getattr(errors, name)))
    assert [each for each in attributes if f"`{each}`" not in section] == []


@pytest.mark.parametrize("name", NAMED)
def test_every_command_and_option_is_documented(name: str) -> None:
    page = text_of(DOCS / "reference" / "cli.md")
    command = NAMED[name]
    section = re.search(rf"\n##+ `aotbuild {name}[ `].*?\n##", page, re.DOTALL)
    assert section
    text = section[0].replace("JSON: ", "--json")
    assert [option for option in command.options if option not in text] == []


@pytest.mark.parametrize("text", TEXTS, ids=[text.stem for text in TEXTS])
def test_what_users_read_is_in_the_table_of_errors(text: Path) -> None:
    """Some words of each pinned message are in the first table, which leads to its section."""
    lines = text_of(DOCS / "reference" / "errors.md").splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]
    phrases = [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row)]
    read = text_of(text)
    assert any(all(part in read for part in phrase.split("…")) for phrase in phrases), read


def test_every_variable_is_documented() -> None:
    documented = text_of(DOCS / "reference" / "runtime.md")
    assert sorted(n for n in variables_of_sources() if f"`{n}`" not in documented) == []


@pytest.mark.parametrize("name", aotbuild.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert f"aotbuild.{name}" in text_of(DOCS / "reference" / "runtime.md") or name[0] == "_"


def test_there_are_manifests_in_the_docs() -> None:
    assert len(MANIFESTS) > 5


@pytest.mark.parametrize(("page", "text"), MANIFESTS, ids=[page for page, _ in MANIFESTS])
def test_manifests_in_the_docs_parse(page: str, text: str) -> None:
    assert parse_manifest(text, page).functions
