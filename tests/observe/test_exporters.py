"""Metrics, as the real libraries of Prometheus and OpenTelemetry give them out."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from support.packages import Built, build, portable, write

import aotbuild
from aotbuild import events
from aotbuild.errors import SignatureMismatch
from aotbuild.observe import opentelemetry, prometheus
from aotbuild.observe.metrics import METRICS
from aotbuild.runtime.observers import emit

X, OTHER = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "runtime.md"
CALL = ("demo", "f", "f32[2,4]", "cpu")
EVERY = (
    events.Opened("demo", "/place", "jax", 0.5, "sha256:00"),
    events.Loaded(*CALL, 0.25, 1000),
    events.Refused(*CALL, "NoExecutable", ("because",)),
    events.Fallback(*CALL, "jit", 2.0, ("because",)),
    events.Compiled(*CALL, 3.0, 500),
    events.Padded(*CALL, "batch 3 → 8"),
    events.Transformed("demo", "f", "", ""),
    events.Copied(*CALL, 4096),
    events.Swapped("demo", "w.safetensors", 2, 80, 0.125),
)


@pytest.fixture(scope="module")
def built() -> list[Built]:
    native = build("f", lambda x: x * 2, {"x": X})
    return [
        native,
        build("g", lambda x: x, {"x": X}).replace(jaxlib="0"),
        portable(native, lambda x: x),
    ]


def use(folder: Path) -> None:
    library = aotbuild.load(folder)
    library.f(X)
    library.f(X)
    with pytest.raises(SignatureMismatch):
        library.f(OTHER)


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Return the samples of the text that a server gives out, by name and labels."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


class TestPrometheus:
    def test_calls(self, tmp_path: Path, built: list[Built]) -> None:
        registry = CollectorRegistry()
        stop = prometheus.export(registry)
        use(write(tmp_path, built))
        found = samples(registry)
        size = built[0].record.blob.size
        labels = "function=f,package=demo,platform=cpu"
        assert found[f"aotbuild_load_duration_seconds_count{{{labels}}}"] == 1
        assert found[f"aotbuild_load_size_bytes_total{{{labels}}}"] == size
        refused = "error=SignatureMismatch,function=f,package=demo"
        assert found[f"aotbuild_refused_calls_total{{{refused}}}"] == 1
        assert found["aotbuild_open_duration_seconds_count{arrays=jax,package=demo}"] == 1
        stop()
        stop()
        assert samples(registry) == {}
        use(tmp_path / "_aot")

    def test_every_event(self) -> None:
        registry = CollectorRegistry()
        stop = prometheus.export(registry)
        for event in EVERY:
            emit(event)
        found = samples(registry)
        stop()
        assert (
            found["aotbuild_fallback_duration_seconds_sum{function=f,package=demo,policy=jit}"] == 2
        )
        assert (
            found["aotbuild_compile_duration_seconds_sum{function=f,package=demo,platform=cpu}"]
            == 3
        )
        assert found["aotbuild_padded_calls_total{function=f,package=demo,platform=cpu}"] == 1
        assert found["aotbuild_transformed_calls_total{function=f,package=demo}"] == 1
        assert found["aotbuild_copied_bytes_total{function=f,package=demo,platform=cpu}"] == 4096
        assert found["aotbuild_swap_duration_seconds_sum{package=demo}"] == 0.125

    def test_twice_in_one_registry(self) -> None:
        registry = CollectorRegistry()
        stop = prometheus.export(registry)
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            prometheus.export(registry)
        stop()
        prometheus.export(registry)()


def points(reader: InMemoryMetricReader) -> dict[str, Any]:
    """Return the one data point of each metric, with its unit."""
    data: Any = reader.get_metrics_data()
    [scope] = data.resource_metrics[0].scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("aotbuild", aotbuild.__version__)
    return {
        metric.name: (metric.unit, point)
        for metric in scope.metrics
        for point in metric.data.data_points
    }


class TestOpenTelemetry:
    @pytest.fixture
    def reader(self) -> InMemoryMetricReader:
        return InMemoryMetricReader()

    @pytest.fixture
    def stop(self, reader: InMemoryMetricReader) -> Any:
        provider = MeterProvider([reader], shutdown_on_exit=False)
        stop: Callable[[], None] = opentelemetry.export(provider)
        yield stop
        stop()
        provider.shutdown()

    def test_calls(
        self, tmp_path: Path, built: list[Built], reader: InMemoryMetricReader, stop: Any
    ) -> None:
        use(write(tmp_path, built))
        found = points(reader)
        unit, point = found["aotbuild.load.duration"]
        assert (unit, point.count) == ("s", 1)
        assert dict(point.attributes) == {
            "aotbuild.package": "demo",
            "aotbuild.function": "f",
            "aotbuild.platform": "cpu",
        }
        unit, point = found["aotbuild.refused"]
        assert (unit, point.value) == ("{call}", 1)
        assert point.attributes["error.type"] == "SignatureMismatch"

    def test_every_event(self, reader: InMemoryMetricReader, stop: Any) -> None:
        for event in EVERY:
            emit(event)
        found = points(reader)
        assert sorted(found) == sorted(f"aotbuild.{metric.name}" for metric in METRICS)
        assert found["aotbuild.copied"][1].value == 4096
        assert (
            found["aotbuild.fallback.duration"][1].attributes["aotbuild.fallback.policy"] == "jit"
        )
        assert 0.0005 in found["aotbuild.load.duration"][1].explicit_bounds


def test_the_table_has_every_event() -> None:
    kinds = {event.kind for event in EVERY}
    defined = {
        value.__name__.lower()
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, events.Event)
    } - {"event", "callevent"}
    assert kinds == defined == {metric.event for metric in METRICS}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_and_labels(metric: Any) -> None:
    """Labels have few values, names are those of the conventions, and both are documented."""
    assert set(metric.labels) <= {"package", "function", "platform", "arrays", "policy", "error"}
    total = "" if metric.is_histogram else "_total"
    name = prometheus.name_of(metric) + total
    assert re.fullmatch(r"aotbuild_[a-z_]+_(seconds|bytes_total|calls_total)", name)
    page = PAGE.read_text()
    assert f"`{name}`" in page
    assert f"`aotbuild.{metric.name}`" in page


@pytest.mark.parametrize("name", ["prometheus", "opentelemetry"])
def test_without_its_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = {"prometheus": "prometheus_client", "opentelemetry": "opentelemetry.metrics"}[name]
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"aotbuild.observe.{name}")
    with pytest.raises(ImportError, match=rf"pip install .aotbuild\[{name}\]"):
        importlib.import_module(f"aotbuild.observe.{name}")
