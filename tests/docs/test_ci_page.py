"""The page on CI shows the files of the example project, which `e2e/test_pipelines.py` runs."""

from __future__ import annotations

import re

import pytest
import yaml
from support.doc_pages import DOCS, FENCE, text_of
from support.processes import ROOT

FILES = (".github/workflows/wheels.yml", ".gitlab-ci.yml", "ci/one_target.py")


@pytest.mark.parametrize("name", FILES)
def test_the_page_has_the_file(name: str) -> None:
    page = text_of(DOCS / "how-to" / "ci.md")
    assert f"`{name}`" in page
    assert text_of(ROOT / "example_project" / name) in [body for *_, body in FENCE.findall(page)]


def test_its_jax_and_python_are_a_supported_pair() -> None:
    """The README says which; the newest jax has no number there."""
    pair = re.search(r"supports jax (\S+) on Python (\S+),", text_of(ROOT / "README.md"))
    assert pair is not None
    github = yaml.safe_load(text_of(ROOT / "example_project" / FILES[0]))
    gitlab = yaml.safe_load(text_of(ROOT / "example_project" / FILES[1]))
    assert (github["env"]["JAX"], github["env"]["PYTHON"]) == pair.groups()
    assert gitlab["variables"]["JAX"] == pair[1]
    assert gitlab["default"]["image"] == f"python:{pair[2]}"
