"""The Markdown page: bars, one table for each model and part, and what was not available."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from benchmarks.bars import Results, all_bars
from benchmarks.cold import TOLERANCE
from benchmarks.medians import paired, summarize
from benchmarks.scripts import SCRIPTS

_MODELS = {
    "transformer": "12-layer transformer (d=256, 64 tokens, 42 MB of weights)",
    "digits": "digits CNN (8 images)",
    "mjx": "one mujoco-mjx step of an ant",
}
_BASELINE = "jit"
# A table of a script with more columns than these is turned on its side.
_MOST_COLUMNS = 11


def page(results: Results, level: int = 1) -> str:
    """Return everything that was measured as Markdown; `level` is that of its first headings."""
    parts = [_machine(results), _bars(results), _cold(results), _warm(results)]
    parts += [_script(results, script.name, script.title, script.shown) for script in SCRIPTS]
    text = "\n\n".join(part for part in [*parts, _missing(results)] if part)
    return re.sub(r"^## ", "#" * (level + 1) + " ", text, flags=re.MULTILINE) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    aligned = ["---", *["---:" for _ in head[1:]]]
    lines = [head, aligned, *[[str(cell) for cell in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _machine(results: Results) -> str:
    if not results:
        return "Nothing was measured yet."
    document = results.get("cold") or next(iter(results.values()))
    machine, jax = document["machine"], document["environments"].get("jax", {})
    quick = " Quick: few rounds." if document["quick"] else ""
    return (
        f"{machine['processor']}, {machine['cpus']} CPUs, {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}, jax {jax.get('jax', '?')}, "
        f"numpy {jax.get('numpy', '?')}; {machine['date']}.{quick}"
    )


def _bars(results: Results) -> str:
    rows = [
        (
            bar.name,
            _number(bar.measured, ".3g") + (bar.unit if bar.measured is not None else ""),
            f"{bar.limit:g}{bar.unit}",
            bar.verdict,
            _number(bar.whole, ".3g"),
            _number(bar.cpu, ".3g"),
        )
        for bar in all_bars(results)
    ]
    head = ("bar", "measured", "at most", "", "whole process", "CPU time")
    return (
        "## Bars\nRatios of medians. A cold start runs from fork to the first result. The last two "
        "columns are the ratios of whole processes, up to their exit, and of their CPU time.\n\n"
        + table(head, rows)
    )


def _cold(results: Results) -> str:
    report = results.get("cold", {}).get("report", {})
    return "\n\n".join(_cold_model(model, measured) for model, measured in by_model(report).items())


def _cold_model(model: str, measured: dict[str, Any]) -> str:
    systems = measured["systems"]
    jit = systems.get(_BASELINE)
    ordered = sorted(systems.values(), key=lambda system: median(system["first_result_s"]))
    rows = [
        (
            system["title"],
            summarize(system["first_result_s"]).text(1000, 0),
            paired(system["first_result_s"], jit["first_result_s"]).text() if jit else "",
            summarize(system["wall_s"]).text(1000, 0),
            f"{median(system['cpu_s']) * 1000:.0f}",
            f"{median(system['rss_mb']):.0f}",
            _number(system["size_mb"], ".2f"),
            _number(system["build_s"], ".1f"),
            _number(system["difference"], ".0e"),
        )
        for system in ordered
    ]
    head = (
        *("system", "first result, ms", "ratio to jit", "process, ms", "CPU, ms", "memory, MB"),
        *("artifact, MB", "build, s", "difference"),
    )
    return (
        f"## Cold start: {_MODELS[model]}\n"
        f"{measured['rounds']} rounds, from fork to the first result and to the exit of the "
        "process: medians, with quartiles in brackets. Ratios are paired by round. The last column "
        "is the largest difference from jit's outputs, as a fraction of the largest output; "
        f"{TOLERANCE:g} is allowed.\n\n" + table(head, rows)
    )


def by_model(report: dict[str, Any]) -> dict[str, Any]:
    """Return what a part measured of each model; nothing where the part was not available."""
    return {model: report[model] for model in _MODELS if model in report}


def _warm(results: Results) -> str:
    report = results.get("warm", {}).get("report", {})
    rows = [
        (
            f"{model}: {system['title']}",
            summarize(system["first_s"]).text(1000, 1),
            summarize(system["later_s"]).text(1000, 2),
        )
        for model, measured in by_model(report).items()
        for system in measured["systems"].values()
    ]
    if not rows:
        return ""
    head = ("system", "first call, ms", "later calls, ms")
    return "## Warm latency\nnumpy arrays in and out. Medians of processes.\n\n" + table(head, rows)


def _script(results: Results, name: str, title: str, shown: str) -> str:
    """Return a table of whatever a script printed: one column for each plain value.

    `shown` is how the script is called.
    Rows with other columns than the one before begin another table.
    """
    rows = [_flat(row) for row in results.get(name, {}).get("report", {}).get("rows", [])]
    tables = [_plain_table(list(alike)) for _, alike in groupby(rows, key=list)]
    return "\n\n".join([f"## {title}\n`benchmarks/{shown}`", *tables]) if tables else ""


def _plain_table(rows: list[dict[str, Any]]) -> str:
    """Return rows as a table; a wide one lies on its side, so that a page can show it."""
    lines = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    if len(rows) < len(rows[0]) > _MOST_COLUMNS:
        lines = [list(column) for column in zip(*lines, strict=True)]
    return table(lines[0], lines[1:])


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key} ")
        elif not isinstance(value, list):
            flat[f"{prefix}{key}".replace("_", " ")] = value
    return flat


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, float | int):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _missing(results: Results) -> str:
    lines = {
        f"- {name}: {reason}"
        for part in results.values()
        for report in (part["report"], *_dicts(part["report"]))
        for name, reason in _reasons(part["part"], report)
    }
    return "## Not available here\n" + "\n".join(sorted(lines)) if lines else ""


def _dicts(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [value for value in report.values() if isinstance(value, dict)]


def _reasons(part: str, report: dict[str, Any]) -> Iterable[tuple[str, str]]:
    missing = report.get("not_available", {})
    return {part: missing}.items() if isinstance(missing, str) else missing.items()
