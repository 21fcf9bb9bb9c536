"""Whatever the text: a manifest, or a ManifestError, and nothing else."""

from __future__ import annotations

import string
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aotbuild.build.manifest import Manifest, parse_manifest
from aotbuild.errors import ManifestError

COMPLETE = (Path(__file__).parent / "packages" / "manifests" / "complete.yaml").read_text()
LINES = COMPLETE.splitlines()
TOKENS = [
    *("null", "no", "12:30", "-1", "1e400", ".nan", "1.5", "true", "''", "[]", "{}", "[[]]"),
    *("&a", "*a", "!t", "<<: {}", "- ", "? ", ": ", ", ", "}", "]", '"', "'", "#", "|", ">", "\t"),
    *("---", "...", "%YAML 1.2", "@", "\\", "\0", "\ud800", "\ufeff", "\u2028", "f32[]", "host"),
    *("[key]", "like", "shape", "dict", "x" * 300, "9" * 5000, "{a: " * 70, "0x" + "f" * 5000),
]


def outcome(text: str) -> Manifest | ManifestError:
    """Return what comes of a text; every problem can be shown and has a place."""
    try:
        return parse_manifest(text)
    except ManifestError as err:
        error = err
    assert error.problems
    for problem in error.problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
        str(problem).encode()
    return error


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200) | st.text(alphabet=string.printable, max_size=200))
def test_any_text(text: str) -> None:
    outcome(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*TOKENS, "\n", "\n  ", "version: 1", "a: "]), max_size=30))
def test_any_tokens(parts: list[str]) -> None:
    outcome("".join(parts))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(COMPLETE) - 1), st.integers(0, 12), st.sampled_from(["", *TOKENS])
        ),
        min_size=1,
        max_size=3,
    )
)
def test_spliced_text(edits: list[tuple[int, int, str]]) -> None:
    text = COMPLETE
    for start, length, token in edits:
        text = text[:start] + token + text[start + length :]
    outcome(text)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(LINES) - 1), st.sampled_from(TOKENS))
def test_replaced_value(index: int, token: str) -> None:
    lines = list(LINES)
    key, colon, _ = lines[index].partition(": ")
    lines[index] = f"{key}{colon or ': '}{token}"
    outcome("\n".join(lines))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=len(LINES)))
def test_shuffled_lines(lines: list[str]) -> None:
    outcome("\n".join(lines))


def test_unchanged_is_accepted() -> None:
    assert isinstance(outcome(COMPLETE), Manifest)


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
