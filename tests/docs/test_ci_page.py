"""The page on CI shows the files of the example project, which `e2e/test_pipelines.py` runs."""

from __future__ import annotations

import pytest
from support.doc_pages import DOCS, FENCE, text_of
from support.processes import ROOT

FILES = (".github/workflows/wheels.yml", ".gitlab-ci.yml", "ci/one_target.py")


@pytest.mark.parametrize("name", FILES)
def test_the_page_has_the_file(name: str) -> None:
    page = text_of(DOCS / "how-to" / "ci.md")
    assert f"`{name}`" in page
    assert text_of(ROOT / "example_project" / name) in [body for *_, body in FENCE.findall(page)]
