"""The README as a newcomer sees it: what the demo printed, and the way to a first call."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from support.doc_pages import text_of
from support.processes import ROOT

RATIO = r"([\d.]+) times sooner than jax.jit( with a warm cache)? \(([\d.]+) to ([\d.]+)\)"
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
    inherited.pop("PIP_FIND_LINKS", None)
    done = subprocess.run(
        ["bash", "-euxc", "\n".join(steps())],
        cwd=ROOT,
        env={**inherited, "HOME": str(tmp_path), "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "(32, 4)"
    (wheel,) = tmp_path.glob("mypkg/dist/*.whl")
    assert wheel.name.startswith("mypkg-0.1.0-py3-none-")


@pytest.fixture
def lm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The part of the demo that measures the language model."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("demo_lm")


class TestWhatTheDemoPrinted:
    @pytest.fixture
    def block(self) -> str:
        return text_of(ROOT / "README.md").partition("```text\n")[2].partition("```\n")[0]

    @pytest.fixture
    def rows(self, block: str, lm: ModuleType) -> dict[str, list[float]]:
        """Median, lowest, highest, 16 tokens, traced and compiled of each way, as shown."""
        lines = block.splitlines()
        assert lines[1] == lm.HEADER
        found = {}
        for (way, label), line in zip(lm.LABELS.items(), lines[2:], strict=False):
            assert line.startswith(f"  {label} ")
            found[way] = [float(n) for n in re.findall(r"[\d.]+", line.removeprefix(f"  {label}"))]
        return found

    def test_nothing_was_compiled_with_the_wheel(self, rows: dict[str, list[float]]) -> None:
        assert {way: row[4:] for way, row in rows.items()} == {
            "jit": [2, 2], "export": [2, 2], "cache": [2, 0], "jax": [0, 0], "numpy": [0, 0],
        }  # fmt: skip

    def test_ratios_are_within_the_spread(self, rows: dict[str, list[float]], block: str) -> None:
        said = re.findall(RATIO, block)
        _, best, worst, *_ = rows["numpy"]
        for ratio, warm, *extremes in said:
            _, low, high, *_ = rows["cache" if warm else "jit"]
            for each in map(float, (ratio, *extremes)):
                assert low / worst - 0.1 <= each <= high / best + 0.1
        assert len(said) == 2
