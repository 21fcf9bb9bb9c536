"""The README as a newcomer sees it: what the demo printed, and the way to a first call."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from support.doc_pages import text_of
from support.processes import ROOT

TITLE = re.compile(r'title="([^"]+)"')
BLOCK = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
# Where packages come from is for the machine to say; all else is as in an empty container.
OF_THE_MACHINE = ("PIP_", "UV_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy")


def steps() -> Iterator[str]:
    """Yield what the section for newcomers does, as lines for bash."""
    text = text_of(ROOT / "README.md")
    section = text.partition("## Your own function in five minutes\n")[2].partition("\n## ")[0]
    for _, language, options, indented in BLOCK.findall(section):
        body = dedent(indented)
        if language == "console":
            yield from (line.removeprefix("$ ") for line in body.splitlines())
        else:
            (path,) = TITLE.findall(options)
            yield f"cat > {path} <<'END'\n{body}END"


@pytest.mark.wheel
def test_a_newcomer_comes_to_a_call(tmp_path: Path) -> None:
    inherited = {k: v for k, v in os.environ.items() if k.startswith(OF_THE_MACHINE)}
    inherited["PIP_FIND_LINKS"] = kept = inherited.get("PIP_FIND_LINKS", tmp_path.as_uri())
    done = subprocess.run(
        ["bash", "-euxc", "\n".join(steps())],
        cwd=ROOT,
        env={**inherited, "HOME": str(tmp_path), "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "(32, 4)"
    assert f"PIP_FIND_LINKS={tmp_path}/wheels {kept}" in done.stderr  # it adds to what was set
    (wheel,) = tmp_path.glob("mypkg/dist/*.whl")
    assert wheel.name.startswith("mypkg-0.1.0-py3-none-")
