"""The names of what a trace reads: they mean the same where they are looked up, or are not kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.direct import HERE, Place, manifest
from support.projects import write_project

pytestmark = pytest.mark.process

# Bytes that are no UTF-8, in names of files and in values.
NOT_UTF8 = {
    "lists": "import os\n" + HERE + "def f(x): return x * len(os.listdir(HERE / 'odd'))",
    "asks": "import os\ndef f(x): return x * len(os.environ['PROJ_ODD'])",
    "opens": "import os\n"
    + HERE
    + "def f(x): return x * len(open(os.fsencode(HERE) + b'/odd/\\xe9').read())",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_what_is_not_utf8(place: Place) -> None:
    """A digest stands for such values and listed names; such a name itself is in no entry."""
    write_project(place.root, manifest([*NOT_UTF8]), **NOT_UTF8)
    folder = place.root / "proj" / "odd"
    folder.mkdir()
    (folder / os.fsdecode(b"\xe9")).write_text("a")
    place.patch.setenv("PROJ_ODD", "\udce9")
    not_kept = {"opens": "a name that was read is not UTF-8"}
    assert place.why() == {"lists": "", "asks": "", **not_kept}
    assert place.why() == not_kept
    (folder / os.fsdecode(b"\xe8")).write_text("a")
    place.patch.setenv("PROJ_ODD", "\udce9\udce9")
    assert place.traced() == {*NOT_UTF8}
