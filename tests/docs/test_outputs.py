"""What the tutorial shows is what the commands print.

Each output that the tutorial shows is compared: what follows `$ command` in a console block
with that command's, and a block without a language with any. There, `…` stands for whatever a
machine prints there, in a line of its own for any lines; it shows the CPU level x86-64-v4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

import jax
import jaxlib
import pytest
from support.doc_pages import FENCE, text_of
from support.doc_sessions import TUTORIAL, Place, tutorial

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What all commands of the tutorial printed, by command."""
    place = Place(tmp_path_factory.mktemp("tutorial") / "scores")
    tutorial(place)
    return place.printed


def shown(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the outputs that a page shows, each with its command, or with none."""
    for indent, language, body in FENCE.findall(text_of(page)):
        text = re.sub(f"^{indent}", "", body, flags=re.MULTILINE)
        if language == "console":
            for command, output in re.findall(
                r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", text, re.MULTILINE
            ):
                if output:
                    yield command.strip(), output
        elif not language:
            yield "", text


def normalized(text: str) -> str:
    """Return a text without what machines and versions differ in."""
    for pattern, word in (
        (rf"\b{re.escape(jaxlib.__version__)}(?![\d.])", "0.10.2"),
        (rf"\b{re.escape(jax.__version__)}(?![\d.])", "0.10.2"),
        (r"Python 3\.\d+\.\d+", "Python 3.11.7"),
        (r"\b[0-9a-f]{64}\b|\b[0-9a-f]{8}…", "<digest>"),
        (r"\b[\d.]+ ([kM]?B|bytes)\b", "<n> bytes"),
        (r"\bin [\d.]+ s$", "in <n> s"),
        (r"(\d\d:\d\d:\d\d) +\d+$", r"\1 <n>"),
        (r"[\d.]+ ms +[\d.]+ ms +[\d.]+", "<times>"),
        (r" +", " "),
        (r" +$", ""),
    ):
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


def pattern_of(text: str) -> re.Pattern[str]:
    """Return what an output must match somewhere, in whole lines."""
    lines = [
        "(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*?") + "\n"
        for line in normalized(text).splitlines()
    ]
    return re.compile("^" + "".join(lines), re.MULTILINE)


OUTPUTS = list(shown(TUTORIAL))


@pytest.mark.parametrize(
    ("command", "text"), OUTPUTS, ids=[command or text.splitlines()[0] for command, text in OUTPUTS]
)
def test_the_output_is_what_is_printed(
    command: str, text: str, printed: dict[str, list[str]]
) -> None:
    texts = printed[command] if command else [t for found in printed.values() for t in found]
    found = [normalized(each) + "\n" for each in texts]
    wanted = normalized(text)
    nearest = max(found, key=lambda each: SequenceMatcher(None, wanted, each).ratio(), default="")
    assert any(pattern_of(text).search(each) for each in found), f"{wanted}\nprinted:\n{nearest}"
