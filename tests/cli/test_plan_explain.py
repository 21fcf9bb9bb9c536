"""`aotbuild plan --explain`: which signatures are one program, where they part, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, invoke
from support.projects import PACKAGES, write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

PROJECT = PACKAGES / "impure"
SOURCE = PROJECT / "proj" / "branches.py"


def explain(manifest: Path, *args: str) -> Result:
    return invoke("plan", "--explain", str(manifest), *args)


def line_of(name: str) -> int:
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if line.endswith(f"# @{name}"))
    return number


@pytest.fixture(scope="module")
def text() -> Result:
    return explain(PROJECT / "branches.yaml")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    result = explain(PROJECT / "branches.yaml", "--json")
    assert result.exit_code == 5
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def section(result: Result, function: str) -> str:
    """Return the part of a report that is about one function."""
    (found,) = (s for s in result.stdout.split("\n\n") if s.startswith(f"{function}:"))
    return found.rstrip()


def test_sizes_and_constants_make_no_other_program(text: Result) -> None:
    assert section(text, "same") == "same: one program for all 12 signatures"


def test_a_static_argument_decides(text: Result) -> None:
    assert section(text, "by_static") == (
        "by_static: 2 programs for 4 signatures, decided by causal\n"
        "  program 1: by_static(batch=2, causal=False), by_static(batch=8, causal=False)\n"
        "  program 2: by_static(batch=2, causal=True), by_static(batch=8, causal=True)\n"
        "    differs from program 1 first: reduce_sum, here jit tril\n"
        f"      at {SOURCE}:{line_of('by_static')} in by_static\n"
        "        y = jnp.tril(y)  # @by_static"
    )


def test_a_size_decides(text: Result) -> None:
    found = section(text, "by_size")
    assert "2 programs for 4 signatures, decided by batch" in found
    assert "program 2: by_size(batch=8), by_size(batch=16)" in found
    assert "first: cos, here sin" in found
    assert f"{SOURCE}:{line_of('by_size')} in by_size" in found


def test_an_unrolled_loop_is_told(text: Result) -> None:
    found = section(text, "unrolled")
    assert "decided by steps" in found
    assert "2 times, then 3: a loop in Python is unrolled, one copy for each turn" in found


def test_a_refusal_costs_its_signature_alone(text: Result) -> None:
    found = section(text, "refuses_some")
    assert found.startswith("refuses_some: one program for all 2 signatures\n")
    assert "refused: refuses_some(batch=8)" in found
    assert "ValueError: too large" in found
    assert text.exit_code == 5


def test_impure_ones_are_refused_as_in_a_build(text: Result) -> None:
    found = section(text, "impure")
    assert found.startswith("impure: no program\n")
    assert "is not pure: traced twice, it gave two programs" in found


def test_notes_name_a_place_once(text: Result) -> None:
    found = section(text, "notes")
    assert found.count("note:") == 1
    assert "the global `proj.branches.LOG` changed while tracing" in found


def test_progress_goes_to_stderr(text: Result) -> None:
    assert "traced: by_size(batch=2)" in text.stderr
    assert "refused: refuses_some(batch=8)" in text.stderr
    assert "traced: " not in text.stdout


def test_the_document(document: dict[str, Any]) -> None:
    assert (document["version"], document["error"], document["package"]) == (1, None, "proj")
    functions = {function["function"]: function for function in document["functions"]}
    first, second = functions["by_size"]["programs"]
    assert first == {"signatures": ["by_size(batch=2)", "by_size(batch=4)"], "differs_at": None}
    assert second["differs_at"] == {
        "first": "cos",
        "other": "sin",
        "line": f"{SOURCE}:{line_of('by_size')} in by_size",
        "remark": "",
    }
    assert functions["by_size"]["decided_by"] == ["batch"]
    assert [item["traced"] for item in functions["refuses_some"]["signatures"]] == [1, 1, 0]
    labels = {failure["unit"] for failure in document["failures"]}
    assert labels == {"refuses_some(batch=8)", "impure()"}


def test_symbolic_signatures_are_traced_and_not_compared(document: dict[str, Any]) -> None:
    functions = {function["function"]: function for function in document["functions"]}
    symbolic = [item for item in functions["symbolic"]["signatures"] if item["symbolic"]]
    assert [(item["label"], item["traced"]) for item in symbolic] == [
        ("symbolic(batch=b, scale=1.0)", True)
    ]
    assert functions["symbolic"]["programs"] == [
        {"signatures": ["symbolic(batch=2, scale=1.0)"], "differs_at": None}
    ]


def test_a_crash_is_a_failure_of_its_signature(tmp_path: Path) -> None:
    code = "import os\ndef f(x):\n    if x.shape[0] == 3:\n        os.abort()\n    return x\n"
    manifest = (
        "version: 1\npackage: proj\nfunctions:\n  f: {call: 'proj.code:f', "
        "args: [{x: 'f32[n]'}], dims: {n: [2, 3, 4]}}\n"
    )
    root = write_project(tmp_path / "here", manifest, code=code)
    result = explain(root / "aot.yaml", "--json")
    assert result.exit_code == 5
    (failure,) = json.loads(result.stdout)["failures"]
    assert failure["unit"] == "f(n=3)"
    assert "died of SIGABRT" in failure["message"]


def test_without_failures_it_ends_with_0(tmp_path: Path) -> None:
    manifest = (
        "version: 1\npackage: proj\nfunctions:\n  f: {call: 'proj.code:f', args: [{x: 'f32[2]'}]}\n"
    )
    root = write_project(tmp_path / "here", manifest, code="def f(x):\n    return x\n")
    result = explain(root / "aot.yaml")
    assert result.exit_code == 0, result.output
    assert "f: one program for its signature" in result.stdout
    assert {path.name for path in (root / "proj").iterdir()} == {"__init__.py", "code.py"}
