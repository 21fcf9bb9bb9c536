"""The pipelines of the example project compile with a pair of jax and Python that is supported."""

from __future__ import annotations

import re

import yaml
from support.doc_pages import text_of
from support.processes import ROOT

PROJECT = ROOT / "example_project"


def test_its_jax_and_python_are_a_supported_pair() -> None:
    """The README says which; the newest jax has no number there."""
    pair = re.search(r"supports jax (\S+) on Python (\S+),", text_of(ROOT / "README.md"))
    assert pair is not None
    github = yaml.safe_load(text_of(PROJECT / ".github" / "workflows" / "wheels.yml"))
    gitlab = yaml.safe_load(text_of(PROJECT / ".gitlab-ci.yml"))
    assert (github["env"]["JAX"], github["env"]["PYTHON"]) == pair.groups()
    assert gitlab["variables"]["JAX"] == pair[1]
    assert gitlab["default"]["image"] == f"python:{pair[2]}"
