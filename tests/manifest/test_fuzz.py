"""Whatever the file: a manifest, or a ManifestError; then a plan, or a PlanError; nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.doc_pages import MANIFESTS
from support.fuzz import VALUES, fuzz, mutations
from support.manifest_fuzz import SMALL, check_plan, check_problems

from aotbuild.errors import ManifestError
from aotbuild.manifest import Manifest, load_manifest

pytestmark = pytest.mark.fuzz

PACKAGES = Path(__file__).parents[1] / "packages"
COMPLETE = (PACKAGES / "manifests" / "complete.yaml").read_text()
TOKENS = [
    *("null", "no", "12:30", "-1", "1e400", ".nan", "1.5", "true", "''", "[]", "{}", "[[]]"),
    *("&a", "*a", "!t", "<<: {}", "- ", "? ", ": ", ", ", "}", "]", '"', "'", "#", "|", ">", "\t"),
    *("---", "...", "%YAML 1.2", "@", "\\", "\0", "\ud800", "\ufeff", "\u2028", "f32[]", "host"),
    *("[key]", "like", "shape", "dict", "x" * 300, "9" * 5000, "{a: " * 70, "0x" + "f" * 5000),
]


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    global FILE  # one file for thousands of examples, outside of their arguments
    FILE = tmp_path_factory.mktemp("fuzz") / "aot.yaml"
    yield
    FILE.unlink(missing_ok=True)


FILE = Path()


def outcome(content: str | bytes) -> Manifest | ManifestError:
    """Return what comes of a file; every problem can be shown, and a manifest can be planned."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    FILE.write_bytes(data)
    try:
        manifest = load_manifest(FILE)
    except ManifestError as err:
        check_problems(err)
        return err
    check_plan(manifest)
    return manifest


# --- text and bytes -------------------------------------------------------------------------------


@fuzz(300)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    outcome(data)


def edits(text: str) -> st.SearchStrategy[list[tuple[int, int, str]]]:
    edit = st.tuples(
        st.integers(0, len(text) - 1), st.integers(0, 12), st.sampled_from(["", *TOKENS])
    )
    return st.lists(edit, min_size=1, max_size=3)


def spliced(text: str, changes: list[tuple[int, int, str]]) -> str:
    for start, length, token in changes:
        text = text[:start] + token + text[start + length :]
    return text


@fuzz(600)
@given(edits(SMALL))
def test_spliced_small_text(changes: list[tuple[int, int, str]]) -> None:
    outcome(spliced(SMALL, changes))


# --- trees ----------------------------------------------------------------------------------------


def small() -> Any:
    """Return the small manifest as a tree; keys of JSON are text, so without the position."""
    tree = yaml.safe_load(SMALL)
    del tree["functions"]["f"]["static"][3]
    return tree


def dumped(tree: Any, *, flow: bool) -> str:
    """Return a tree as YAML: in JSON's form, or in blocks where every value has one."""
    if not flow:
        try:
            return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
        except (ValueError, UnicodeError, yaml.YAMLError):
            pass
    return json.dumps(tree, ensure_ascii=False)


def documented() -> list[Any]:
    """Return the manifests of the documents, without the longest."""
    return [yaml.safe_load(text) for _, text in MANIFESTS if len(text) < 1200]


MANIFEST_VALUES = VALUES | st.sampled_from(
    [
        *(yaml.safe_load(token) for token in ("f32[b]", "{like: 'p.m:g'}", "[cpu]", "host", "cpu")),
        *({"tuple": ["f32[]"]}, {"dict": {"like": "f32[]"}}),
        *({"cpu": {"isa": "x86-64-v4"}}, {"tpu": {"topology": ["v5e:2x2"]}}, {"portable": {}}),
        *({"b": 1, "s": 2}, [{"b": 1}, {"b": 2}], ["data", None], [["data", "x"]], "3.11", "p.m:f"),
    ]
)
TREES = st.sampled_from([small(), *documented()])


@fuzz(500)
@given(TREES.flatmap(lambda tree: mutations(tree, MANIFEST_VALUES)), st.booleans())
def test_edited_trees_of_the_documents(tree: Any, flow: bool) -> None:
    outcome(dumped(tree, flow=flow))


# --- without chance -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [COMPLETE, SMALL, *(text for _, text in MANIFESTS)])
def test_unchanged_is_accepted(text: str) -> None:
    assert isinstance(outcome(text), Manifest)


HEAD = "version: 1\npackage: p\nfunctions:\n  f:\n    call: m:f\n    args: [x: 'f32[a]']\n    "


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"k{i}: 1\n" for i in range(20000)),
        f"{HEAD}dims: {{a: [{'1, ' * 50000}2]}}",
        f"{HEAD}dims: [{'{a: 1}, ' * 20000}]",
        f"{HEAD}dims: {{a: 1}}\n    donate: [{'x, ' * 20000}]",
        f"{HEAD}dims: {{a: 1}}\n    static: {{s: [{'1, ' * 50000}2]}}",
        "".join(f"  g{i}: {{}}\n" for i in range(20000)).join(["functions:\n", ""]),
    ],
    ids=["unknown keys", "sizes", "rows", "donate", "statics", "functions"],
)
def test_large_and_wrong_ends_soon(text: str) -> None:
    began = time.process_time()
    assert isinstance(outcome(text), ManifestError)
    assert time.process_time() - began < 60


def test_problems_are_capped() -> None:
    error = outcome("".join(f"k{i}: 1\n" for i in range(2000)))
    assert isinstance(error, ManifestError)
    assert len(error.problems) == 1000
