"""The page of threats says of each class of faults what holds, and counts its experiments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from faults.run import FOLDER, LEAST, class_of
from support.doc_pages import DOCS, text_of
from support.processes import ROOT

pytestmark = pytest.mark.process

PAGE = DOCS / "explanation" / "threats.md"
# In the row of a class: its name, what is promised, what is not, and the number.
ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \| ([\d,]+) \|$", re.MULTILINE)


def test_each_class_has_a_row_with_its_number() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", str(FOLDER)]
    env = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    cases = [line for line in done.stdout.splitlines() if "::" in line]
    collected = Counter(map(class_of, cases))
    shown = {name: int(count.replace(",", "")) for name, count in ROW.findall(text_of(PAGE))}
    assert shown == dict(collected)
    assert f"{collected.total():,} experiments" in text_of(PAGE)
    assert collected.total() >= LEAST
