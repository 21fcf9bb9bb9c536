"""The whole text of every error that users meet most is pinned.

They are in `tests/error_texts/`; `error_cases_*.py` produce them. To accept new ones, run this file
with UPDATE_ERROR_TEXTS=1, read the difference, and copy those that docs/reference/errors.md shows.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import jax
import jaxlib
import pytest
from support.error_cases import Place
from support.error_cases_build import BROKEN, build_failures
from support.error_cases_build import CASES as BUILD_CASES
from support.error_cases_refused import CASES as REFUSED_CASES
from support.error_cases_run import CASES as RUN_CASES
from support.processes import ROOT

TEXTS = Path(__file__).parents[1] / "error_texts"
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
CASES = {**BUILD_CASES, **REFUSED_CASES, **RUN_CASES}
NAMES = sorted([*CASES, *BROKEN])
# Messages of the page that no case here produces.
OTHERS = ("no GPU can be used here", "mypkg/model.py was edited", "calls.jsonl: not a call log")


def normalised(text: str, here: Path) -> str:
    """Return a text as the documents print it: without what machines and versions differ in.

    Paths begin with `…`; digests and sizes in bytes are words; versions and the ISA level are those
    of the documents.
    """
    text = text.replace(str(here / "here"), "…").replace(str(here), "…")
    for pattern, shown in (
        (r"\b[0-9a-f]{64}\b", "<sha256>"),
        (r"docs\.jax\.dev/en/latest/\d+/", "docs.jax.dev/en/latest/"),
        (r"\bsha256=[\w-]{43}", "sha256=<base64>"),
        (r"\b\d+ bytes\b", "<n> bytes"),
        (rf"\b{re.escape(jax.__version__)}(?![\d.])", "0.10.2"),
        (rf"\b{re.escape(jaxlib.__version__)}(?![\d.])", "0.10.2"),
        (r"cpu:(x86-64-v[234](\+\w+)?|aarch64):", "cpu:x86-64-v4:"),
    ):
        text = re.sub(pattern, shown, text)
    return text.rstrip("\n") + "\n"


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("broken")
    return {name: normalised(text, root) for name, text in build_failures(root / "here").items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.process
def test_text(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CASES[name](Place(tmp_path, monkeypatch))
    monkeypatch.undo()
    compare(name, normalised(text, tmp_path))


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.process
def test_text_of_a_build(name: str, failures: dict[str, str]) -> None:
    compare(name, failures[name])


def compare(name: str, text: str) -> None:
    path = TEXTS / f"{name}.txt"
    if os.environ.get("UPDATE_ERROR_TEXTS") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_text_is_produced() -> None:
    assert [path.stem for path in sorted(TEXTS.iterdir())] == NAMES


def test_the_documents_show_texts_as_they_are() -> None:
    """Each message on the page is one that is pinned."""
    texts = {path.read_text(encoding="utf-8") for path in TEXTS.iterdir()}
    shown = re.findall(r"^```\n(.*?)```$", PAGE, re.MULTILINE | re.DOTALL)
    assert [text for text in shown if text not in texts and not text.startswith(OTHERS)] == []
