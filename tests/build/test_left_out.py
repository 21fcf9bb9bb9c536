"""Reasons in the index: the first lines of an error, without paths of the build machine."""

from __future__ import annotations

import pytest

from aotbuild.build.results import reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  at /home/me/proj/pkg/model.py:12 in f", "at …/model.py:12 in f"),
        ("no '/etc/secret/x.npz'", "no '…/x.npz'"),
        ("C:\\Users\\me\\model.py: no", "…/model.py: no"),
        ("(/tmp/a b/c.py)", "(…/a b/c.py)"),
        ("f32[8]/f32[2], a/b and 1/2", "f32[8]/f32[2], a/b and 1/2"),
        ("see https://docs.jax.dev/en/latest/errors.html#x", None),
        ("<function f at 0x7f3a12bc9d00>", "<function f at 0x…>"),
        ("color 0xff", "color 0xff"),
    ],
)
def test_paths_and_addresses(text: str, expected: str | None) -> None:
    assert reason(text, []) == (expected or text)


def test_folders_of_the_build_are_gone_even_with_spaces() -> None:
    found = reason("no /srv/my project/pkg/x.py", ["/srv/my project", "/srv", "/", ""])
    assert found == "no …/pkg/x.py"


def test_it_is_bounded() -> None:
    assert reason("\n".join("abcdefghij"), []) == "\n".join("abcdefgh")
    assert len(reason("x" * 10_000, [])) == 800
