"""Draw the stages of `first_call.py` as an SVG: one bar for each executable."""

from __future__ import annotations

from html import escape
from typing import Any

_COLORS = {
    "python": "#9aa5b1",
    "import numpy": "#7b8794",
    "import jaxlib": "#616e7c",
    "client": "#3e4c59",
    "read weights": "#8d6e63",
    "load": "#2a78c2",
    "put": "#7cb342",
    "first call": "#e07b39",
    "second call": "#f4c095",
}
_TITLES = {
    "xla": "as XLA serializes it",
    "steady": "startup: steady",
    "fast": "startup: fast",
}
_TITLE = "From the start of Python to the second result: ms of CPU, all threads"
_WIDTH, _LEFT, _BAR, _STEP = 860, 150, 30, 48


def draw(rows: list[dict[str, Any]]) -> str:
    """Return the picture as text."""
    longest = max(sum(times["cpu_ms"] for times in row["stages"].values()) for row in rows)
    scale = (_WIDTH - _LEFT - 70) / longest
    height = 60 + _STEP * len(rows) + 30
    box = f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="22" font-size="14">{_TITLE}</text>',
    ]
    for number, row in enumerate(rows):
        parts += _bar(row, 40 + _STEP * number, scale)
    parts += _legend(height - 18)
    return "\n".join([*parts, "</svg>", ""])


def _bar(row: dict[str, Any], top: float, scale: float) -> list[str]:
    middle = top + _BAR / 2 + 4
    title = _TITLES[row["executable"]]
    parts = [f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{escape(title)}</text>']
    left = float(_LEFT)
    for name, times in row["stages"].items():
        width = times["cpu_ms"] * scale
        color = _COLORS[name]
        label = f"{name}: {times['cpu_ms']:.1f} ms"
        parts.append(
            f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{color}">'
            f"<title>{escape(label)}</title></rect>"
        )
        if width > 26:
            parts.append(
                f'<text x="{left + width / 2:.1f}" y="{middle}" text-anchor="middle" '
                f'fill="white">{times["cpu_ms"]:.0f}</text>'
            )
        left += width
    total = sum(times["cpu_ms"] for times in row["stages"].values())
    return [*parts, f'<text x="{left + 6:.1f}" y="{middle}">{total:.0f}</text>']


def _legend(y: float) -> list[str]:
    parts, x = [], 10.0
    for name, color in _COLORS.items():
        parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{color}"/>')
        parts.append(f'<text x="{x + 14}" y="{y}" font-size="11">{escape(name)}</text>')
        x += 24 + 6.4 * len(name)
    return parts
