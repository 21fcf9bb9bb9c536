"""Turn the results of run.py into tables: `python benchmarks/gpu/gpu_tables.py FILE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

Document = dict[str, Any]
Ways = dict[str, list[dict[str, Any]]]


def page(document: Document) -> str:
    """Return everything that was measured, as Markdown."""
    parts = [_machine(document), _functions(document), _starts(document), _summary(document)]
    return "\n\n".join(part for part in parts if part)


def middle(found: Sequence[dict[str, Any]], key: str) -> float | None:
    """Return the median of a figure over processes; None if one of them failed."""
    if not found or any(key not in each for each in found):
        return None
    return median(each[key] for each in found)


def ratio(ways: Ways, way: str, other: str, key: str) -> float | None:
    """Return the ratio of the medians of two ways."""
    ours, theirs = middle(ways.get(way, []), key), middle(ways.get(other, []), key)
    return ours / theirs if ours is not None and theirs else None


def verdict(function: dict[str, Any], way: str) -> str | None:
    """Return `right`, what is wrong with the results of a way, or why there are none."""
    found = function["ways"].get(way)
    if not found:
        return None
    failed = next((each["failed"] for each in found if "failed" in each), None)
    if failed is not None:
        return f"failed: {failed}"
    wrong = max(each["wrong"] for each in found)
    if wrong:
        return f"WRONG: {wrong} integers"
    error = max(each["error"] for each in found)
    return "right" if error <= function["tolerance"] else f"WRONG: {error:.1e}"


def _machine(document: Document) -> str:
    machine = document["machine"]
    versions = [f"{name} {version}" for name, version in machine["versions"].items() if version]
    small = ["small arguments"] if document["small"] else []
    return ", ".join([*machine["gpus"], f"{machine['cpus']} CPUs", *versions, *small])


def _functions(document: Document) -> str:
    """Return a row for each function: warm calls, first calls, errors."""
    functions = document["functions"]
    ours = [
        how for how in ("untuned", "tuned") if any(how in f["ways"] for f in functions.values())
    ]
    head = ["function", "jit, µs"]
    head += [title for how in ours for title in (f"{how}, µs", "ratio", "numbers")]
    head += [f"first call, ms: {way}" for way in ("jit", "cache", *ours)] + ["error of jit"]
    rows = []
    for name, function in functions.items():
        ways = function["ways"]
        row = [name, _number(middle(ways["jit"], "warm"), 1e6, 1)]
        for how in ours:
            row.append(_number(middle(ways.get(how, []), "warm"), 1e6, 1))
            row.append(_number(ratio(ways, how, "jit", "warm"), 1, 2))
            row.append(verdict(function, how) or "")
        firsts = [middle(ways.get(way, []), "first") for way in ("jit", "cache", *ours)]
        row += [_number(first, 1e3, 1) for first in firsts]
        error = middle(ways["jit"], "error")
        row.append(verdict(function, "jit") or "" if error is None else f"{error:.1e}")
        rows.append(row)
    return _table(head, rows)


def _starts(document: Document) -> str:
    starts: dict[str, Ways] = document["starts"]
    if not starts:
        return ""
    ways = list(dict.fromkeys(way for found in starts.values() for way in found))
    rows = []
    for name, found in starts.items():
        cells = (_number(middle(found.get(way, []), "start"), 1, 2) or "failed" for way in ways)
        rows.append([name, *cells])
    title = "From the start of a process to the first result, in seconds:"
    return f"{title}\n\n{_table(['function', *ways], rows)}"


def _summary(document: Document) -> str:
    """Return what decides: medians, the worst, wrong results, compilations."""
    functions, lines = document["functions"], []
    for how in ("untuned", "tuned"):
        tried = {name: f for name, f in functions.items() if how in f["ways"]}
        if not tried:
            continue
        ratios = {n: ratio(f["ways"], how, "jit", "warm") for n, f in tried.items()}
        known = sorted((value, name) for name, value in ratios.items() if value is not None)
        if known:
            worst = ", ".join(f"{name} {value:.2f}" for value, name in known[:-4:-1])
            middle_ratio = median(value for value, _ in known)
            lines.append(
                f"- {how}, warm, to jit: median {middle_ratio:.2f} of {len(known)}; worst: {worst}"
            )
        bad = [f"{n} ({v})" for n, f in tried.items() if (v := verdict(f, how)) != "right"]
        lines.append(f"- {how}, not right: {'; '.join(bad) or 'none'}")
        count = sum(each.get("compilations", 0) for f in tried.values() for each in f["ways"][how])
        lines.append(f"- {how}, compilations: {count}")
    for name, found in document["starts"].items():
        for way in found:
            if not way.startswith(("jit", "cache")):
                value = ratio(found, way, "cache", "start")
                figure = "not measured" if value is None else f"{value:.2f}"
                lines.append(f"- first result of {name}, {way}, to jit with a warm cache: {figure}")
    return "\n".join(lines)


def _number(value: float | None, factor: float, digits: int) -> str:
    return "" if value is None else f"{value * factor:,.{digits}f}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
