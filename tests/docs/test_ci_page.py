"""The pipeline of the example project compiles with a pair of jax and Python that is supported."""

from __future__ import annotations

import re

import yaml
from support.doc_pages import text_of
from support.processes import ROOT

WORKFLOW = ROOT / "example_project" / ".github" / "workflows" / "wheels.yml"


def test_its_jax_and_python_are_a_supported_pair() -> None:
    """The README says which; the newest jax has no number there."""
    pair = re.search(r"supports jax (\S+) on Python (\S+),", text_of(ROOT / "README.md"))
    assert pair is not None
    workflow = yaml.safe_load(text_of(WORKFLOW))
    assert (workflow["env"]["JAX"], workflow["env"]["PYTHON"]) == pair.groups()
