"""Draw charts of the results in a folder: `python benchmarks/chart.py FOLDER`. Needs matplotlib.

`cold.png`: from fork to the first result, by model. `stages.png`: where the time of the whole
process goes. `threads.png`: calls a second from 1 to 8 threads. Reads the JSON files, and nothing
else of this package.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_OURS, _JAX, _PEER, _FLOOR = "#d1495b", "#30638e", "#7d8597", "#c9ccd1"
_TITLES = {"transformer": "12-layer transformer", "digits": "digits CNN", "mjx": "mujoco-mjx step"}
_STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
# The order of the bars. All imports are in the place of "import"; what else a system marks comes
# before the first call.
_ORDER = ("python", "import", "open", "client", "load", "weights")
_LAST = ("first call", "exit")
_COLORS = mpl.colormaps["tab20"].colors


def main() -> None:
    """Draw what there are results for."""
    folder = Path(sys.argv[1])
    mpl.rcParams.update(_STYLE)
    for name, draw in (("cold", draw_cold), ("stages", draw_stages), ("threads", draw_threads)):
        source = folder / ("threads.json" if name == "threads" else "cold.json")
        report = json.loads(source.read_text())["report"] if source.exists() else {}
        if "not_available" in report or not report:
            continue
        draw(report).savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})


def draw_cold(report: dict[str, Any]) -> Figure:
    """Return bars from fork to the first result of each system, with quartiles, model by model."""
    heights = [len(measured["systems"]) for measured in report.values()]
    figure = Figure(figsize=(9, 0.9 * len(heights) + 0.27 * sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (model, measured) in zip(axes, report.items(), strict=True):
        ordered = sorted(
            measured["systems"].items(), key=lambda item: -median(item[1]["first_result_s"])
        )
        middles = [median(system["first_result_s"]) * 1000 for _, system in ordered]
        bars = axis.barh(
            [system["title"] for _, system in ordered],
            middles,
            color=[_color(name, system) for name, system in ordered],
            xerr=_spreads(ordered, middles),
            error_kw={"lw": 1, "ecolor": "#444444"},
        )
        axis.bar_label(bars, [f" {middle:.0f}" for middle in middles], padding=10)
        axis.set_title(
            f"{_TITLES[model]}: fork to first result, ms (median and quartiles)", loc="right"
        )
        axis.margins(x=0.12, y=0.01)
    return figure


def draw_stages(report: dict[str, Any]) -> Figure:
    """Return stacked bars of the stages of each process of the transformer."""
    model = "transformer" if "transformer" in report else next(iter(report))
    systems = report[model]["systems"]
    kept = {
        name: {stage: median(times) * 1000 for stage, times in system["stages_s"].items()}
        for name, system in systems.items()
    }
    for name, system in systems.items():
        kept[name]["exit"] = 1000 * (median(system["wall_s"]) - median(system["first_result_s"]))
    ordered = sorted(kept, key=lambda name: -sum(kept[name].values()))
    stages = sorted(dict.fromkeys(stage for name in ordered for stage in kept[name]), key=_rank)
    figure = Figure(figsize=(9, 1.6 + 0.3 * len(ordered)), layout="constrained")
    axis = figure.subplots()
    left = [0.0] * len(ordered)
    for index, stage in enumerate(stages):
        widths = [kept[name].get(stage, 0.0) for name in ordered]
        titles = [systems[name]["title"] for name in ordered]
        axis.barh(titles, widths, left=left, label=stage, color=_COLORS[index % len(_COLORS)])
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.set_title(f"{_TITLES[model]}: where the time goes, ms (medians)", loc="right")
    axis.margins(y=0.01)
    figure.legend(loc="outside lower center", ncols=6, frameon=False)
    return figure


def draw_threads(report: dict[str, Any]) -> Figure:
    """Return lines of calls a second over threads."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axis = figure.subplots()
    for row in report["rows"]:
        counts = [int(count) for count in row["threads"]]
        rates = [rate / 1000 for rate in row["threads"].values()]
        axis.plot(counts, rates, marker="o", label=row["system"])
    axis.set_xlabel("threads")
    axis.set_title("thousand calls a second", loc="left")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False)
    return figure


def _rank(stage: str) -> int:
    """Return the place of a stage in the bars."""
    if stage in _LAST:
        return len(_ORDER) + 1 + _LAST.index(stage)
    kind = stage.partition(" ")[0]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _color(name: str, system: dict[str, Any]) -> str:
    if system["title"].startswith("aotbuild"):
        return _OURS
    if name in {"floor", "raw"}:
        return _FLOOR
    return _PEER if system["peer"] else _JAX


def _spreads(ordered: list[tuple[str, Any]], middles: list[float]) -> list[list[float]]:
    """Return how far the quartiles are below and above the medians."""
    spread: list[list[float]] = [[], []]
    for (_, system), middle in zip(ordered, middles, strict=True):
        samples = [sample * 1000 for sample in system["first_result_s"]]
        low, _, high = (
            quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
        )
        spread[0].append(max(0.0, middle - low))
        spread[1].append(max(0.0, high - middle))
    return spread


if __name__ == "__main__":
    main()
