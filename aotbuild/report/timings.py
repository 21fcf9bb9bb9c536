"""One self-contained HTML page about a build: when each step of each unit began and ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aotbuild.report.page import render

# The colors of page.css, by the first word of a step.
_COLORS = ("compiling", "tracing", "importing", "computing", "comparing", "checking", "starting")


def timings_html(package: str, units: Sequence[Mapping[str, Any]]) -> str:
    """Return the page as text, to be written as UTF-8.

    `units` are those of the document of `aotbuild build`: each has a `label`, a `state`, and
    `steps` with `doing`, `start` and `end`, in seconds since the build began.
    """
    steps = [step for unit in units for step in unit["steps"] if step["end"] is not None]
    whole = max((step["end"] for step in steps), default=0.0) or 1.0
    rows = [
        (unit["label"], unit["state"], [_bar(step, whole) for step in unit["steps"]])
        for unit in units
    ]
    by_word = defaultdict(list)
    for step in steps:
        by_word[_word(step)].append((step["start"], step["end"]))
    totals = {word: _covered(spans) for word, spans in by_word.items()}
    ranked = sorted(totals.items(), key=lambda total: -total[1])
    return render(
        "timings.html",
        package=package,
        rows=rows,
        legend=[(word, f"{seconds:.1f} s", _color(word)) for word, seconds in ranked],
        before=f"{min((step['start'] for step in steps), default=0.0):.1f}",
        seconds=f"{whole:.1f}",
    )


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of the spans lasted."""
    seconds, reached = 0.0, 0.0
    for start, end in sorted(spans):
        seconds += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return seconds


def _bar(step: Mapping[str, Any], whole: float) -> dict[str, str]:
    """Return where a step's bar is, in percent of the whole build, its color and its title."""
    start, end = step["start"], step["end"] or step["start"]
    return {
        "left": f"{100 * start / whole:.3f}",
        "width": f"{100 * (end - start) / whole:.3f}",
        "color": _color(_word(step)),
        "title": f"{step['doing']}: {end - start:.2f} s, from {start:.2f} s on",
    }


def _word(step: Mapping[str, Any]) -> str:
    return str(step["doing"]).partition(" ")[0]


def _color(word: str) -> str:
    return f"--c{_COLORS.index(word) if word in _COLORS else len(_COLORS)}"
