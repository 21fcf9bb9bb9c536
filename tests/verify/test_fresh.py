"""A process that does one thing: what it answers, or a text that says why there is no answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from aotbuild.verify.children import ask

pytestmark = pytest.mark.process

# What the user's code may do to such a process, and what is said of it.
MODULE = """
import os, sys

def main():
    how = sys.argv[2].strip('"')
    if how == "prints":
        os.write(1, b"not JSON")
    if how == "prints much":
        os.write(1, b"{" * 5000)
    if how == "exits":
        os._exit(3)
    if how == "answers":
        os.write(1, b"[1]")
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("answers", [1]),
        ("nothing", "the process ended without an answer"),
        ("prints", "the process ended without an answer"),
        ("prints much", "the process ended without an answer"),
        ("exits", "the process ended with 3: "),
    ],
)
def test_what_it_says(
    how: str, found: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "does.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert ask("does", how, os.environ, 60) == found
