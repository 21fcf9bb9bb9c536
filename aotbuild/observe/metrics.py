"""The metrics that are made of events: one table for all exporters.

Names follow the semantic conventions of OpenTelemetry: dotted, a unit beside them in UCUM
(https://opentelemetry.io/docs/specs/semconv/general/naming/). Attributes have few values each:
names of packages, functions, platforms, policies and errors, but no signatures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aotbuild.runtime.events import Event

# From loading a small executable to compiling a large one, in seconds.
BUCKETS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)


@dataclass(frozen=True)
class Metric:
    """What is counted of one kind of event.

    `name` has dots, without the prefix `aotbuild`. `unit` is `s` for a histogram of durations, else
    that of a counter: `By` or `{call}`. `value` is the attribute of the event that is added, or
    None for one. `labels` are attributes of the event.
    """

    event: str
    name: str
    unit: str
    value: str | None
    labels: tuple[str, ...]
    description: str

    @property
    def is_histogram(self) -> bool:
        """Whether it is a histogram of durations, not a counter."""
        return self.unit == "s"

    def value_of(self, event: Event) -> float:
        """Return what an event adds."""
        return 1 if self.value is None else float(getattr(event, self.value))

    def labels_of(self, event: Event) -> tuple[str, ...]:
        """Return the values of the labels."""
        return tuple(str(getattr(event, label)) for label in self.labels)


_CALL = ("package", "function")
_PLACED = (*_CALL, "platform")
METRICS = (
    Metric("opened", "open.duration", "s", "seconds", ("package", "arrays"), "Opening an index"),
    Metric("loaded", "load.duration", "s", "seconds", _PLACED, "Loading an executable"),
    Metric("loaded", "load.size", "By", "bytes", _PLACED, "Bytes of executables loaded"),
    Metric("refused", "refused", "{call}", None, (*_CALL, "error"), "Calls without an executable"),
    Metric(
        *("fallback", "fallback.duration", "s", "seconds", (*_CALL, "policy")),
        "Calls that a fallback served, compiling included",
    ),
    Metric("compiled", "compile.duration", "s", "seconds", _PLACED, "Compiling a portable form"),
    Metric("padded", "padded", "{call}", None, _PLACED, "Calls padded to a larger size"),
    Metric("transformed", "transformed", "{call}", None, _CALL, "Calls with tracers"),
    Metric("copied", "copied", "By", "bytes", _PLACED, "Bytes of arguments copied"),
    Metric("swapped", "swap.duration", "s", "seconds", ("package",), "Replacing constants"),
)


def exporter(record: Callable[[Metric, Event], None]) -> Callable[[Event], None]:
    """Return a subscriber that calls `record` for each metric of an event."""
    of_kind: dict[str, list[Metric]] = {}
    for metric in METRICS:
        of_kind.setdefault(metric.event, []).append(metric)

    def export(event: Event) -> None:
        for metric in of_kind.get(event.kind, ()):
            record(metric, event)

    return export
