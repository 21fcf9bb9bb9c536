"""The environment variables of aotbuild are listed in one module, and few."""

from __future__ import annotations

import re

from support.processes import ROOT

from aotbuild.cli.app import OF_BUILDS, OF_CALLS, OF_CHILDREN

MOST = 14


def test_all_that_the_code_reads_are_listed() -> None:
    sources = [*ROOT.glob("aotbuild/**/*.py"), *ROOT.glob("hatch_plugin/**/*.py")]
    others = [path for path in sources if path.name != "app.py"]
    text = "".join(path.read_text(encoding="utf-8") for path in others)
    listed = {*OF_BUILDS, *OF_CALLS, *OF_CHILDREN}
    assert {*re.findall("AOTBUILD_[A-Z_]+", text)} == listed
    assert len(listed) <= MOST
