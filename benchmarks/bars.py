"""The bars that this project set itself: a measured figure, and what it may be at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.building.limits import LIMITS

Results = dict[str, dict[str, Any]]
Figure = Callable[[Results], "float | None"]


@dataclass(frozen=True)
class Bar:
    """One bar; `measured` is None where the part was not run or the system is not available.

    `whole` is the same ratio of whole processes, exit included, where `measured` ends at the first
    result; `cpu` that of their CPU time, which other programs on the machine disturb least.
    """

    name: str
    limit: float
    measured: float | None
    unit: str = ""
    whole: float | None = None
    cpu: float | None = None

    @property
    def verdict(self) -> str:
        """Return met, missed or not measured."""
        if self.measured is None:
            return "not measured"
        return "met" if self.measured <= self.limit else "missed"


def all_bars(results: Results) -> list[Bar]:
    """Return every bar with what was measured; peers are those that were available."""
    cold = [
        Bar(
            f"Cold start, {model}: {system} / {baseline}",
            limit,
            cold_ratio(results, "first_result_s", model, system, baseline),
            whole=cold_ratio(results, "wall_s", model, system, baseline),
            cpu=cold_ratio(results, "cpu_s", model, system, baseline),
        )
        for model, system, baseline, limit in (*_COLD, *_peers(results))
    ]
    others = [
        Bar(name, limit, figure(results), unit)
        for name, limit, unit, figure in (*_WARM, *_INDEX, *_SERVER, *_BUILD)
    ]
    return cold + others


def cold_ratio(results: Results, key: str, model: str, system: str, baseline: str) -> float | None:
    """Return the ratio of the medians of two systems' cold starts."""
    systems = _systems(results, "cold", model)
    if not {system, baseline} <= set(systems):
        return None
    ratio: float = median(systems[system][key]) / median(systems[baseline][key])
    return ratio


def _dispatch(backend: str, signatures: int) -> Figure:
    def figure(results: Results) -> float | None:
        for row in _rows(results, "dispatch"):
            if (row.get("backend"), row.get("signatures")) == (backend, signatures):
                return float(row["ratio"])
        return None

    return figure


def _index(key: str) -> Figure:
    """Return the worst figure of 10,000 executables that `index.py` prints, of all layouts."""

    def figure(results: Results) -> float | None:
        rows = _rows(results, "index")
        return max(
            (float(row[key]) for row in rows if row.get("executables") == 10_000), default=None
        )

    return figure


def _built(part: str, key: str) -> Figure:
    """Return a figure of a part of `build.py`."""

    def figure(results: Results) -> float | None:
        return next((float(row[key]["median"]) for row in _rows(results, f"build_{part}")), None)

    return figure


def _server(way: str) -> Figure:
    """Return the CPU time until 8 executables are ready, over that of a warm cache."""

    def figure(results: Results) -> float | None:
        ratios = {row["way"]: row["of_jit"]["ready_cpu_ms"] for row in _rows(results, "server")}
        return ratios.get(way)

    return figure


def _peers(results: Results) -> list[tuple[str, str, str, float]]:
    systems = _systems(results, "cold", "transformer")
    peers = [name for name, system in systems.items() if system.get("peer")]
    return [
        ("transformer", ours, name, 1.0)
        for name in peers
        for ours in _ALIKE.get(name, (OURS_HOLDING, OURS_SCANNED))
        if ours in systems
    ]


def _systems(results: Results, part: str, model: str) -> dict[str, Any]:
    report = results.get(part, {}).get("report", {})
    measured = report.get(model, {})
    systems: dict[str, Any] = measured.get("systems", {})
    return systems


def _rows(results: Results, part: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = results.get(part, {}).get("report", {}).get("rows", [])
    return rows


# The numpy backend, built to start fast: with the weights given, and with them in the package.
OURS_GIVEN, OURS_HOLDING = "numpy-fast", "numpy-hoist-fast"
# With `preload` in a thread before the weights are read.
OURS_AHEAD = "numpy-fast-ahead"
# The same network with its layers in lax.scan: the code of one layer, and not of twelve.
OURS_SCANNED = "numpy-scan"
# Peers keep the weights in their artifact and are compared with ours that do. These are given them.
_ALIKE = {"iree-given": (OURS_GIVEN, OURS_AHEAD)}
_COLD = (
    *(
        ("transformer", ours, baseline, limit)
        for baseline, limit in (("serialize", 0.55), ("jit", 0.35), ("floor", 1.5))
        for ours in (OURS_GIVEN, OURS_AHEAD, OURS_HOLDING)
    ),
    *(("transformer", ours, "serialize", 0.95) for ours in ("jax", "jax-ahead", "jax-fast")),
    ("mjx", "numpy", "jit", 0.15),
    ("mjx", "jax", "jit", 0.15),
)
_WARM = tuple(
    (f"Warm call at {count:,} signatures: {name} / jit", limit, "", _dispatch(backend, count))
    for backend, name, limit in (
        ("jax", "jax backend", 1.03),
        ("numpy", "numpy backend, jax in the process", 1.0),
        ("numpy-alone", "numpy backend, without jax", 1.0),
    )
    for count in (1, 64, 1000)
)
_INDEX = (
    (
        "Opening 10,000 executables, over an empty package",
        15.0,
        " ms",
        _index("open_ms_over_empty"),
    ),
    (
        "Memory of 10,000 executables, over an empty package",
        10.0,
        " MB",
        _index("memory_mb_over_empty"),
    ),
)
_SERVER = tuple(
    (f"CPU until 8 executables are ready: {way} / jit, cache warm", limit, "", _server(way))
    for way, limit in (("numpy", 0.3), ("jax", 0.6))
)
_BUILD = tuple(
    (limit.title, limit.at_most, "", _built(part, limit.key))
    for part, limits in LIMITS.items()
    for limit in limits
)
