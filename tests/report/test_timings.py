"""The page about a build: a bar for each step, and nothing in a label becomes a tag."""

from __future__ import annotations

from typing import Any

from aotbuild.report.timings import timings_html

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def unit(label: str, *steps: tuple[str, float, float | None]) -> dict[str, Any]:
    named = [{"doing": doing, "start": start, "end": end} for doing, start, end in steps]
    return {"label": label, "state": "done", "steps": named}


def test_steps_are_bars_of_the_whole_build() -> None:
    traced = ("tracing f", 1.0, 2.0)
    page = timings_html("proj", [unit("f", traced, ("compiling", 2.0, 5.0)), unit("g", traced)])
    assert "A build of 5.0 s, of which 1.0 s passed before the first step." in page
    assert page.count('title="tracing f: 1.00 s, from 1.00 s on"') == 2
    assert 'style="left: 40.000%; width: 60.000%; background: var(--c0)"' in page
    # A step that two units share counts once.
    assert "tracing <b>1.0 s</b>" in page
    assert "compiling <b>3.0 s</b>" in page


def test_a_build_that_stopped_early_has_a_page() -> None:
    assert "A build of 1.0 s" in timings_html(
        "proj", [unit("f"), unit("g", ("compiling", 0, None))]
    )


def test_hostile_names_stay_text() -> None:
    page = timings_html(EVIL, [unit(EVIL, (EVIL, 0.0, 1.0))])
    assert "<img" not in page
    assert "<script" not in page
