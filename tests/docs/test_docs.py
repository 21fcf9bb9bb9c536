"""The documents: links lead somewhere, examples parse, and nothing public is left out."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.doc_pages import DOCS, FENCE, MANIFESTS, PAGES, name_of, text_of
from support.processes import ROOT

import aotbuild
from aotbuild import errors
from aotbuild.cli.app import COMMANDS, OF_BUILDS, OF_CALLS, OF_CHILDREN
from aotbuild.cli.command import Command
from aotbuild.manifest import parse_manifest

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# How the docs name files outside of docs/, which are not on the site.
SOURCE = re.compile(r"https://github\.com/aotbuild/aotbuild/(?:blob|tree)/main/")
# Budgets of the documentation.
WORDS, DECISIONS = 50_000, 20


def prose(page: Path) -> str:
    return FENCE.sub("", text_of(page))


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as code hosts make them."""
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(prose(page)))
    return {title.strip().replace(" ", "-") for title in titles}


def named_commands() -> Iterator[tuple[str, Command]]:
    """Yield each command with what is typed for it, as `store prune`."""
    for each in itertools.chain(*COMMANDS.values()):
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


NAMED = dict(named_commands())
ERRORS = sorted(
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.AotbuildError)
)
SECTIONS = dict(
    section.split("\n", 1)
    for section in text_of(DOCS / "reference" / "errors.md").split("\n## ")[1:]
)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_the_nav_of_the_site_leads_to_every_page() -> None:
    nav = text_of(ROOT / "mkdocs.yml").partition("\nnav:\n")[2]
    assert sorted(re.findall(r"[\w/-]+\.md", nav)) == sorted(
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")
    )


def test_the_budgets() -> None:
    words = sum(len(text_of(page).split()) for page in (*PAGES, ROOT / "CHANGELOG.md"))
    assert words <= WORDS
    assert len([*(DOCS / "decisions").glob("*.md")]) <= DECISIONS


@pytest.mark.parametrize("name", ["architecture", "targets-facts"])
def test_files_are_where_the_page_says(name: str) -> None:
    text = prose(DOCS / "explanation" / f"{name}.md")
    files = set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", text))
    assert files
    roots = (ROOT / "aotbuild", ROOT)
    assert [each for each in sorted(files) if not any((r / each).exists() for r in roots)] == []


def test_the_table_of_commands_is_that_of_the_help() -> None:
    table: dict[str, list[str]] = {}
    for title, name in re.findall(
        r"^\| (\w*) ?\| \[`([a-z]+)`\]", text_of(DOCS / "reference" / "cli.md"), re.MULTILINE
    ):
        table.setdefault(title or list(table)[-1], []).append(name)
    assert table == {title: [each.name for each in group] for title, group in COMMANDS.items()}


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_has_a_section(name: str) -> None:
    section = SECTIONS[name]
    assert "```" in section
    assert "do:" in " ".join(section.split())
    assert f"[`{name}`](#" in text_of(DOCS / "reference" / "errors.md")
    attributes = re.findall(r"self\.(\w+)(?:: [^=]+)? = ", inspect.getsource(getattr(errors, name)))
    assert [each for each in attributes if f"`{each}`" not in section] == []


def test_no_error_is_explained_that_is_gone() -> None:
    assert sorted(SECTIONS) == ERRORS


@pytest.mark.parametrize("name", NAMED)
def test_every_command_and_option_is_documented(name: str) -> None:
    page = text_of(DOCS / "reference" / "cli.md")
    section = re.search(rf"\n##+ `aotbuild {name}[ `].*?\n##", page, re.DOTALL)
    assert section
    text = section[0]
    undocumented = [option for option in NAMED[name].options if option not in text]
    assert [option for option in undocumented if option != "--json"] == []
    shown = set(re.findall(r"^\| .*?`(--[\w-]+)", text, re.MULTILINE))
    assert sorted(shown - set(NAMED[name].options)) == []


def test_no_command_is_documented_that_is_gone() -> None:
    page = text_of(DOCS / "reference" / "cli.md")
    shown = re.findall(r"^##+ `aotbuild (store \w+|\w+)", page, re.MULTILINE)
    assert sorted(set(shown) - {"store"}) == sorted(NAMED)


def test_the_variables_are_documented() -> None:
    page = text_of(DOCS / "reference" / "runtime.md")
    table = page.partition("## Environment variables\n")[2].partition("\n## ")[0]
    shown = set(re.findall(r"`(AOTBUILD_[A-Z_]+)`", table))
    assert shown == {*OF_BUILDS, *OF_CALLS, *OF_CHILDREN}


@pytest.mark.parametrize("name", aotbuild.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert f"aotbuild.{name}" in text_of(DOCS / "reference" / "runtime.md") or name[0] == "_"


@pytest.mark.parametrize(("page", "text"), MANIFESTS, ids=[page for page, _ in MANIFESTS])
def test_manifests_in_the_docs_parse(page: str, text: str) -> None:
    assert parse_manifest(text, page).functions
