"""Markdown of what was printed: literal, and never too long for a comment."""

from __future__ import annotations

from aotbuild.cli.markdown import Markdown


def markdown(*lines: str) -> Markdown:
    made = Markdown()
    for line in lines:
        made.line(line)
    return made


def test_lines_are_one_block_and_tables_apart() -> None:
    made = markdown("", "a  b", "", "c\nd", "")
    made.table(["x", "y z"], [["f32[2]", "1 kB"], ["a|b", "`c`"]])
    made.line("")
    made.line("end")
    assert made.render("title") == (
        "### title\n\n```text\na  b\n\nc\nd\n```\n\n"
        "| x | y z |\n| --- | --- |\n| `f32[2]` | 1 kB |\n| `a\\|b` | `'c'` |\n\n"
        "```text\nend\n```\n"
    )


def test_a_fence_is_longer_than_any_inside() -> None:
    assert "\n````text\n```\n````\n" in markdown("```").render("t")


def test_long_text_is_cut_between_lines() -> None:
    made = markdown(*(f"line {number}" for number in range(10_000)))
    made.table(["a"], [["b"]])
    text = made.render("t", 2000)
    assert len(text) <= 2000
    assert text.endswith("\n```\n\nThe rest is too long for this place; the log has all of it.\n")
    long = markdown("short", "x" * 5000, "after").render("t", 500)
    assert (len(long) <= 500, "short" in long, "after" in long) == (True, True, False)
    table = Markdown()
    table.table(["a"], [[str(number)] for number in range(1000)])
    assert len(table.render("t", 300)) <= 300


def test_nothing() -> None:
    assert markdown("", "").render("t") == "### t\n"
    assert Markdown().render("a`<b>") == "### `a'<b>`\n"
