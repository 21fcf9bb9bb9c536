"""Where the benchmarks keep things; git keeps none of it."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BENCH = ROOT / ".bench"
ENVIRONMENTS = BENCH / "environments"
DATA = BENCH / "data"
ARTIFACTS = BENCH / "artifacts"
RESULTS = HERE / "results"
