"""Metrics for Prometheus, with prometheus-client (`pip install "aotbuild[prometheus]"`).

Names follow https://prometheus.io/docs/practices/naming/: `aotbuild_load_duration_seconds`,
`aotbuild_padded_calls_total`. The reference of the runtime lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
except ImportError as err:
    needed = "aotbuild.observe.prometheus needs prometheus-client"
    message = f'{needed}: pip install "aotbuild[prometheus]"'
    raise ImportError(message) from err

from aotbuild.observe.metrics import BUCKETS, METRICS, Metric, exporter
from aotbuild.runtime.events import Event
from aotbuild.runtime.observers import subscribe

_UNITS = {"s": "seconds", "By": "bytes", "{call}": "calls"}


def export(registry: CollectorRegistry = REGISTRY) -> Callable[[], None]:
    """Register metrics of all libraries in this process, and count their events from now on.

    Args:
        registry: Where to register them; by default prometheus-client's own.

    Returns:
        A function that stops it and takes the metrics out of the registry.

    Raises:
        ValueError: The registry has these metrics already.

    Examples:
        >>> from aotbuild.observe import prometheus
        >>> stop = prometheus.export()
    """
    made = {metric: _make(metric, registry) for metric in METRICS}

    def record(metric: Metric, event: Event) -> None:
        child = made[metric].labels(*metric.labels_of(event))
        (child.observe if metric.is_histogram else child.inc)(metric.value_of(event))

    unsubscribe = subscribe(exporter(record))

    def stop() -> None:
        unsubscribe()
        while made:
            registry.unregister(made.popitem()[1])

    return stop


def name_of(metric: Metric) -> str:
    """Return the name of a metric in Prometheus; a counter gets `_total` behind it."""
    return f"aotbuild_{metric.name.replace('.', '_')}_{_UNITS[metric.unit]}"


def _make(metric: Metric, registry: CollectorRegistry) -> Any:
    words = (name_of(metric), metric.description, metric.labels)
    if metric.is_histogram:
        return Histogram(*words, registry=registry, buckets=BUCKETS)
    return Counter(*words, registry=registry)
