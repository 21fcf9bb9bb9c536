"""The README as a newcomer follows it: its files, its commands, its call."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from support.installs import build_wheel, make_layer, pip
from support.processes import ROOT

pytestmark = pytest.mark.wheel

FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def blocks() -> dict[str, list[str]]:
    """The code of the section for newcomers, by language."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Your own function in five minutes\n")[2].partition("\n## ")[0]
    found: dict[str, list[str]] = {}
    for _, language, body in FENCE.findall(section):
        found.setdefault(language, []).append(dedent(body))
    return found


@pytest.fixture(scope="module")
def wheel(blocks: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("readme")
    (root / "mypkg").mkdir()
    (root / "mypkg" / "__init__.py").touch()
    (root / "mypkg" / "model.py").write_text(blocks["python"][0])
    (root / "pyproject.toml").write_text(blocks["toml"][0])
    (root / "aot.yaml").write_text(blocks["yaml"][0])
    assert "$ pip wheel . --no-deps -w dist\n" in blocks["console"][1]
    # The wheel of the example project is built in isolation, from these requirements.
    assert 'requires = ["hatchling", "aotbuild[build]"]\n' in blocks["toml"][0]
    return build_wheel(root, root / "dist")


def test_the_call_works_where_only_the_wheel_is_installed(
    wheel: Path,
    blocks: dict[str, list[str]],
    example_python: Path,
    links: Path,
    tmp_path: Path,
) -> None:
    assert wheel.name.startswith("mypkg-0.1.0-py3-none-")
    # Below is what pip installed for another wheel: this one needs the same, and no more.
    python = make_layer(tmp_path / "env", example_python)
    pip(python, "install", "--no-index", "--quiet", wheel, links=links)
    *before, call = blocks["python"][1].rstrip().splitlines()
    shown = "\n".join([*before, f"print({call}.shape, lib.stats()['fallbacks'])"])
    done = subprocess.run([python, "-P", "-c", shown], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "(32, 4) {'portable': 0, 'jit': 0}\n", done.stderr
