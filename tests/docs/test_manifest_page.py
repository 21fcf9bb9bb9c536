"""The reference page of the manifest has the keys, types and defaults of the JSON schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from support.processes import ROOT
from support.schemas import validator

from aotbuild.format.signature import LIBRARY_NAMES

SCHEMA: dict[str, Any] = json.loads((ROOT / "configs" / "aotbuild.schema.json").read_text())
PAGE = (ROOT / "docs" / "reference" / "manifest.md").read_text(encoding="utf-8")
# Where the options of a section are in the manifest.
SECTIONS = {
    "Top level": (),
    "`cpu`": ("targets", "cpu"),
    "`cuda`": ("targets", "cuda"),
    "`tpu`": ("targets", "tpu"),
    "`portable`": ("targets", "portable"),
    "Toolchains": ("toolchains",),
    "A function": ("functions",),
    "`export`": ("functions", "export"),
    "Golden outputs": ("functions", "verify"),
}
# How the page calls the types of JSON; a text is also a path, a version or another name.
WORDS = {"boolean": "boolean", "integer": "whole number", "number": "number"}
WORDS |= {"array": "list", "object": "map"}
# What leaving a key out means where no value says the same; the page has words for it.
UNWRITTEN = (None, [])


def parts(node: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and those that it refers to or chooses from."""
    yield node
    for key in ("anyOf", "oneOf", "allOf"):
        for choice in node.get(key, ()):
            yield from parts(choice)
    if "$ref" in node:
        yield from parts(SCHEMA["definitions"][node["$ref"].rpartition("/")[2]])


def options(path: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of the map of options at a path of the manifest."""
    node = SCHEMA
    for key in path:
        found = [*parts(node["properties"][key])]
        inner = [part[at] for part in found for at in ("items", "additionalProperties")
                 if isinstance(part.get(at), dict)]  # fmt: skip
        found += [part for each in inner for part in parts(each)]
        node = next(part for part in found if "properties" in part)
    return node


def rows(section: str) -> Iterator[list[str]]:
    """Yield the cells of the table of a section: key, type, default, meaning, example."""
    text = re.split(rf"^##+ {re.escape(section)}$", PAGE, flags=re.MULTILINE)[1]
    table = text.partition("| key | type | default | meaning | example |\n|---|---|---|---|---|\n")
    for line in table[2].partition("\n\n")[0].splitlines():
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def types(node: Any) -> set[str]:
    """Return the types that a value may have."""
    named = [part.get("type", ()) for part in parts(node)]
    return {name for each in named for name in ([each] if isinstance(each, str) else each)}


def literals(node: Any) -> set[str]:
    """Return the words that a value, or an item of it, may be."""
    found = [*parts(node)]
    found += [part for each in found if "items" in each for part in parts(each["items"])]
    return {str(word) for part in found for word in part.get("enum", ())}


def plain(default: Any) -> Any:
    """Return a default as it is written: without nulls, and a target without options by name."""
    if isinstance(default, list):
        return [plain(item) for item in default]
    if isinstance(default, dict) and "cpu" in default:
        options = {key: value for key, value in default["cpu"].items() if value is not None}
        return "cpu" if options == {"isa": ["host"]} else default
    return default


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_has_the_keys_of_the_schema(section: str) -> None:
    keys = [key.strip("`") for key, *_ in rows(section)]
    assert sorted(keys) == sorted(options(SECTIONS[section])["properties"])


ROWS = [(section, *row) for section in SECTIONS for row in rows(section)]


@pytest.mark.parametrize(
    ("section", "key", "kind", "default", "example"),
    [(section, key.strip("`"), kind, default, example)
     for section, key, kind, default, _, example in ROWS],
    ids=[f"{section}: {key}" for section, key, *_ in ROWS],
)  # fmt: skip
def test_type_default_and_example(
    section: str, key: str, kind: str, default: str, example: str
) -> None:
    schema = options(SECTIONS[section])
    node = schema["properties"][key]
    assert [WORDS[name] for name in types(node) & {*WORDS} if WORDS[name] not in kind] == []
    # The presets of GPUs are listed below their table.
    where = PAGE if key == "gpu" else kind
    assert {word for word in literals(node) if f"`{word}`" not in where} == set()
    assert (default == "required") == (key in schema.get("required", ()))
    if default.startswith("`"):
        assert yaml.safe_load(default.strip("`")) == plain(node.get("default", {}))
    else:
        assert default == "required" or node.get("default") in UNWRITTEN
    value = yaml.safe_load(example.strip("`"))
    whole = {"definitions": SCHEMA["definitions"], "properties": {key: node}, "required": [key]}
    validator(whole).validate(value)


def test_every_map_of_options_has_a_section() -> None:
    known = {json.dumps(options(path)["properties"]) for path in SECTIONS.values()}
    for name, definition in SCHEMA["definitions"].items():
        if "properties" in definition and name not in ("Options", "SignatureSpec", "TargetMap"):
            assert json.dumps(definition["properties"]) in known, name


def test_the_names_that_no_function_may_have() -> None:
    [words] = re.findall(r"uses or\s+reserves\s+these\s+names:(.*?)\.\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", words)) == LIBRARY_NAMES
