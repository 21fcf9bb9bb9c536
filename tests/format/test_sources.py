"""The digests of source files in a header: what is kept, compared, joined and refused."""

from __future__ import annotations

from typing import Any

import pytest

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.sources import SourceDigests, join_sources, read_sources

DIGEST = sha256_hex(b"text")
FILES = {"aot.yaml": DIGEST, "pack/a.py": DIGEST}


def of(files: dict[str, str], **more: Any) -> dict[str, Any]:
    return SourceDigests(files, **more).to_header()


def test_a_header_reads_what_it_wrote() -> None:
    for known in (
        SourceDigests(FILES),
        SourceDigests(FILES, "src", "aot.yaml"),
        SourceDigests({"a.py": DIGEST}, "lib/python"),
    ):
        assert read_sources(known.to_header()) == known
    assert of({}) == {}
    assert read_sources({}) is None


def test_a_list_that_is_too_long_is_left_out() -> None:
    assert of({f"{number:0200}.py": DIGEST for number in range(1000)}) == {}


@pytest.mark.parametrize(
    "found",
    [
        [],
        {},
        {"files": FILES},
        {"files": FILES, "import_root": 1},
        {"files": FILES, "import_root": ".."},
        {"files": FILES, "import_root": "/src"},
        {"files": FILES, "import_root": ".", "manifest": "other.yaml"},
        {"files": FILES, "import_root": ".", "manifest": 1},
        {"files": {"a.py": "x"}, "import_root": "."},
        {"files": {"a.py": DIGEST.upper()}, "import_root": "."},
        {"files": {"a.py": None}, "import_root": "."},
        *(
            {"files": {name: DIGEST}, "import_root": "."}
            for name in (
                "/etc/passwd",
                "../a.py",
                "a/../../b.py",
                "a//b.py",
                "C:a.py",
                "a\\b",
                "a\0",
            )
        ),
    ],
)
def test_what_is_malformed_is_refused(found: Any) -> None:
    with pytest.raises(ValueError, match="header: sources"):
        read_sources({"sources": found})


def test_joined_headers_have_what_they_agree_on() -> None:
    other = sha256_hex(b"other")
    one = of({"aot.yaml": DIGEST, "a.py": DIGEST}, manifest="aot.yaml")
    two = of({"aot.yaml": other, "b.py": DIGEST}, manifest="aot.yaml")
    assert join_sources([one, one]) == one
    assert join_sources([one, two]) == of({"a.py": DIGEST, "b.py": DIGEST})
    assert join_sources([one, {}]) == {}
    assert join_sources([one, of({"a.py": DIGEST}, import_root="src")]) == {}
