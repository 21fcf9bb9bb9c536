"""The HTML page: self-contained, and nothing in a wheel can become a tag, a script or a request."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.reports import HEADER, facts_of, make_function, make_record

from aotbuild.report.page import page_html

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\x1b]0;\u202e"
OURS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3", "p",
    "span", "b", "div", "table", "thead", "tbody", "tr",
    "th", "td", "details", "summary", "dl", "dt", "dd", "footer", "script",
}  # fmt: skip


class Tags(HTMLParser):
    """Collects every element and attribute, and checks that all are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(name)
        self.attributes += attrs
        if name != "meta":
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name


def parsed(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == []
    return tags


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    function = make_function(EVIL, call=EVIL)
    record = make_record(
        EVIL, label=f"{EVIL}(batch={EVIL})", constants=True, calls=(EVIL,), jaxlib=EVIL,
        provenance={EVIL: EVIL, "config": {EVIL: [EVIL]}, "symbolic_leaves": [EVIL]},
    )  # fmt: skip
    # A target has printable ASCII alone: anything else is refused when it is read.
    printable = "".join(char for char in EVIL if "!" <= char <= "~")
    gpu = make_record(EVIL, target=f"cuda:{printable}:1")
    header = {**HEADER, "package": EVIL, "jax": EVIL, "fallback": {EVIL: EVIL}}
    return page_html(facts_of(tmp_path, [function], [record, gpu], header))


def test_hostile_names_stay_text(hostile: str) -> None:
    tags = parsed(hostile)
    assert set(tags.names) <= OURS
    assert tags.names.count("script") == 1
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert "<img" not in hostile
    assert "\x1b" not in hostile
    assert "\u202e" not in hostile
    assert "&lt;script&gt;alert(1)" in hostile


def test_nothing_is_requested(hostile: str) -> None:
    tags = parsed(hostile)
    assert not {"href", "src", "srcset", "action"} & {name for name, _ in tags.attributes}
    style = re.search("<style>(.*?)</style>", hostile, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_only_our_own_script_may_run(tmp_path: Path) -> None:
    page = page_html(facts_of(tmp_path, [make_function()], [make_record()]))
    script = re.search("<script>(.*?)</script>", page, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert "default-src &#39;none&#39;; style-src" in page
    assert f"script-src &#39;sha256-{digest}&#39;" in page
