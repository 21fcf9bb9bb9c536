"""Log records are one line each, with attributes of stable names; jax.monitoring is told, too."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.packages import Built, build, portable, write
from support.processes import fresh

import aotbuild
from aotbuild.errors import DamagedBlob

X = np.ones((2, 4), "float32")
OTHER = np.ones((3, 4), "float32")
RUNTIME = Path(aotbuild.__file__).parent / "runtime"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "runtime.md"


def double(x: Any) -> Any:
    return x * 2


@pytest.fixture(scope="module")
def native() -> Built:
    return build("f", double, {"x": X}, call="log_source:f")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "log_source.py").write_text("def f(x):\n    return x * 2\n")


def fields(record: logging.LogRecord) -> dict[str, Any]:
    assert "\n" not in record.getMessage()
    names = [name for name in vars(record) if name.startswith("aotbuild_")]
    return {name.removeprefix("aotbuild_"): getattr(record, name) for name in names}


class TestRecords:
    def test_a_source_that_is_called(
        self, tmp_path: Path, native: Built, source: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native], fallback="jit"))
        with caplog.at_level(logging.DEBUG, "aotbuild"):
            library.f(OTHER)
            library.f(OTHER)
        first, again = caplog.records
        assert (first.levelname, again.levelname) == ("WARNING", "DEBUG")
        assert first.filename == "fallback.py"
        found = fields(first)
        assert "x: expected f32[2,4], found f32[3,4]" in found.pop("reasons")
        assert found == {
            "event": "fallback",
            "package": "demo",
            "function": "f",
            "policy": "jit",
            "error": "SignatureMismatch",
        }

    def test_a_portable_form_that_is_compiled(
        self, tmp_path: Path, native: Built, caplog: pytest.LogCaptureFixture
    ) -> None:
        records = [native.replace(jaxlib="0"), portable(native, double)]
        with caplog.at_level(logging.DEBUG, "aotbuild"):
            aotbuild.load(write(tmp_path, records, fallback="portable")).f(X)
        found = fields(caplog.records[-1])
        assert found.pop("seconds") > 0
        assert found == {
            "event": "compiled",
            "package": "demo",
            "function": "f",
            "signature": "f32[2,4]",
            "platform": "cpu",
        }

    def test_a_decorated_function_without_its_package(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        decorated = aotbuild.precompiled("no_such_package:f", fallback="jit")(double)
        with caplog.at_level(logging.DEBUG, "aotbuild"):
            decorated(X)
        found = fields(caplog.records[0])
        assert (found["event"], found["package"]) == ("source_called", "no_such_package")
        assert found["error"] == "PackageNotFound"

    def test_a_preload_that_fails(
        self, tmp_path: Path, native: Built, caplog: pytest.LogCaptureFixture
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native]))
        (tmp_path / "_aot" / native.record.blob.path).write_bytes(b"damaged")
        with caplog.at_level(logging.DEBUG, "aotbuild"), pytest.raises(DamagedBlob):
            library.preload(wait=False).wait()
        assert fields(caplog.records[0])["event"] == "preload_failed"

    def test_a_very_long_error_is_shortened(
        self, native: Built, caplog: pytest.LogCaptureFixture
    ) -> None:
        from aotbuild.runtime.observers import log

        with caplog.at_level(logging.DEBUG, "aotbuild"):
            log("info", "e", "what", ValueError("one\n  two   three\n" + "x" * 2000))
        [record] = caplog.records
        assert record.getMessage().startswith("what: ValueError: one; two three; xxx")
        assert len(record.getMessage()) < 1040
        assert fields(record)["reasons"][:2] == ["one", "two three"]


def test_only_observers_log() -> None:
    """So that each record has its attributes."""
    found = [path.name for path in RUNTIME.rglob("*.py") if "getLogger" in path.read_text()]
    assert found == ["observers.py"]


def test_every_event_of_the_log_is_documented() -> None:
    sources = "\n".join(path.read_text() for path in RUNTIME.rglob("*.py"))
    logged = set(re.findall(r'\blog\(\s*(?:"\w+"|level), "(\w+)"', sources))
    assert logged >= {"fallback", "compiled", "source_called"}
    page = PAGE.read_text().partition("## Logging")[2]
    assert {event for event in logged if f"| `{event}` |" not in page} == set()


class TestMonitoring:
    @pytest.fixture
    def recorded(self) -> Iterator[list[Any]]:
        recorded: list[Any] = []

        def event(name: str, **_: Any) -> None:
            if name.startswith("/aotbuild/"):
                recorded.append(name)

        def duration(name: str, seconds: float, **_: Any) -> None:
            assert seconds >= 0
            event(name)

        jax.monitoring.register_event_listener(event)
        jax.monitoring.register_event_duration_secs_listener(duration)
        yield recorded
        jax.monitoring.unregister_event_listener(event)
        jax.monitoring.unregister_event_duration_listener(duration)

    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    def test_a_first_call_and_a_warm_one(
        self, tmp_path: Path, native: Built, recorded: list[Any], arrays: str
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native]), arrays=arrays)
        library.f(X)
        library.f(X)
        assert recorded == ["/aotbuild/misses", "/aotbuild/load_duration"]

    def test_a_fallback(
        self, tmp_path: Path, native: Built, source: None, recorded: list[Any]
    ) -> None:
        aotbuild.load(write(tmp_path, [native], fallback="jit")).f(OTHER)
        assert recorded == ["/aotbuild/misses", "/aotbuild/refused", "/aotbuild/fallback/jit"]

    def test_a_listener_that_fails_breaks_nothing(self, tmp_path: Path, native: Built) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise ValueError

        jax.monitoring.register_event_listener(fail)
        try:
            result = aotbuild.load(write(tmp_path, [native])).f(X)
        finally:
            jax.monitoring.unregister_event_listener(fail)
        np.testing.assert_array_equal(result, X * 2)

    @pytest.mark.process
    def test_jax_is_not_imported_for_it(self, tmp_path: Path, native: Built) -> None:
        code = """
import json, sys
import numpy as np
import aotbuild
aotbuild.load(sys.argv[1], arrays="numpy").f(np.ones((2, 4), np.float32))
print(json.dumps("jax" in sys.modules))
"""
        assert fresh(code, str(write(tmp_path, [native]))) is False
