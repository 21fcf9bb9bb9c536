"""Medians, spreads and paired ratios of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True)
class Summary:
    """Median and quartiles of some samples."""

    median: float
    low: float
    high: float
    count: int

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """Return `median (low to high)`, each times `scale`."""
        values = [f"{value * scale:.{digits}f}" for value in (self.median, self.low, self.high)]
        return f"{values[0]} ({values[1]} to {values[2]})"


def summarize(samples: Sequence[float]) -> Summary:
    """Return median and quartiles; of one sample all are the same. Raises ValueError if empty."""
    if not samples:
        msg = "no samples"
        raise ValueError(msg)
    # One sample alone has no quartiles: twice the same has, and they are it.
    spread = samples if len(samples) > 1 else (samples[0], samples[0])
    low, _, high = quantiles(spread, n=4, method="inclusive")
    return Summary(median(samples), low, high, len(samples))


def paired(samples: Sequence[float], baseline: Sequence[float]) -> Summary:
    """Summarize the ratios of samples that were taken in the same rounds."""
    return summarize([one / other for one, other in zip(samples, baseline, strict=True)])
