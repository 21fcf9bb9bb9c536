"""Metrics for OpenTelemetry, with its API alone (`pip install "aotbuild[opentelemetry]"`).

The application chooses the SDK and where metrics go. Names follow the semantic conventions:
`aotbuild.load.duration`, in seconds. The reference of the runtime lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from opentelemetry.metrics import Meter, MeterProvider, get_meter_provider
except ImportError as err:
    needed = "aotbuild.observe.opentelemetry needs opentelemetry-api"
    message = f'{needed}: pip install "aotbuild[opentelemetry]"'
    raise ImportError(message) from err

from aotbuild.observe.metrics import BUCKETS, METRICS, Metric, exporter
from aotbuild.runtime.events import Event
from aotbuild.runtime.observers import subscribe

# The attribute that the conventions have for the class of an error.
_ATTRIBUTES = {"error": "error.type", "policy": "aotbuild.fallback.policy"}


def export(meter_provider: MeterProvider | None = None) -> Callable[[], None]:
    """Make instruments for the events of all libraries in this process, and record from now on.

    Args:
        meter_provider: Whose meter records; by default the global one.

    Returns:
        A function that stops it.

    Examples:
        >>> from aotbuild.observe import opentelemetry
        >>> stop = opentelemetry.export()
    """
    from aotbuild import __version__

    meter = (meter_provider or get_meter_provider()).get_meter("aotbuild", __version__)
    made = {metric: _make(metric, meter) for metric in METRICS}
    names = {metric: tuple(map(_attribute, metric.labels)) for metric in METRICS}

    def record(metric: Metric, event: Event) -> None:
        attributes = dict(zip(names[metric], metric.labels_of(event), strict=True))
        made[metric](metric.value_of(event), attributes)

    return subscribe(exporter(record))


def _attribute(label: str) -> str:
    return _ATTRIBUTES.get(label, f"aotbuild.{label}")


def _make(metric: Metric, meter: Meter) -> Callable[[float, dict[str, str]], Any]:
    name = f"aotbuild.{metric.name}"
    options: Any = {"unit": metric.unit, "description": metric.description}
    if metric.is_histogram:
        options["explicit_bucket_boundaries_advisory"] = BUCKETS
        return meter.create_histogram(name, **options).record
    return meter.create_counter(name, **options).add
