"""`aotbuild schema` prints the committed schema; with --json it is in the document."""

from __future__ import annotations

import json
from pathlib import Path

from support.cli import run

COMMITTED = Path(__file__).parents[2] / "configs" / "aotbuild.schema.json"


def test_stdout_gets_the_committed_bytes() -> None:
    assert run("schema").stdout_bytes == COMMITTED.read_bytes()


def test_the_document() -> None:
    document = json.loads(run("schema", "--json").stdout)
    assert document["schema"] == json.loads(COMMITTED.read_text(encoding="utf-8"))
