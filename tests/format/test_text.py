"""Texts for people."""

from __future__ import annotations

import pytest

from aotbuild.format.values import cut


@pytest.mark.parametrize(
    ("text", "expected"), [("", ""), ("abcd", "abcd"), ("abcde", "abc…"), ("ééééé", "ééé…")]
)
def test_a_cut_text_is_no_longer_than_asked_for(text: str, expected: str) -> None:
    assert cut(text, 4) == expected
