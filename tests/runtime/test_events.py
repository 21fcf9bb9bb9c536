"""Events: each is told once, as plain data, and a subscriber cannot break a call."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.packages import Built, build, portable, write

import aotbuild
from aotbuild import events
from aotbuild.errors import AotbuildError, SignatureMismatch
from aotbuild.format.padding import PaddedDim, Padding

X = np.ones((2, 4), "float32")
OTHER = np.ones((3, 4), "float32")


def double(x: Any) -> Any:
    return x * 2


@pytest.fixture(scope="module")
def native() -> Built:
    return build("f", double, {"x": X}, call="event_source:f")


@pytest.fixture
def told() -> Iterator[list[events.Event]]:
    told: list[events.Event] = []
    unsubscribe = aotbuild.subscribe(told.append)
    yield told
    unsubscribe()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "event_source.py").write_text("def f(x):\n    return x * 2\n")


class TestKinds:
    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    def test_opened_then_loaded_once(
        self, tmp_path: Path, native: Built, told: list[Any], arrays: str
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native]), arrays=arrays)
        for _ in range(3):
            library.f(X)
        opened, loaded = told
        assert (opened.kind, opened.package, opened.arrays) == ("opened", "demo", arrays)
        assert opened.place == str(tmp_path / "_aot")
        assert opened.digest == library.digest
        assert isinstance(loaded, events.Loaded)
        assert (loaded.package, loaded.function, loaded.platform) == ("demo", "f", "cpu")
        assert loaded.signature == "f32[2,4]"
        assert loaded.bytes == native.record.blob.size
        assert 0 < loaded.seconds < 60

    def test_refused_then_raised(self, tmp_path: Path, native: Built, told: list[Any]) -> None:
        library = aotbuild.load(write(tmp_path, [native]))
        with pytest.raises(SignatureMismatch):
            library.f(OTHER)
        refused = told[-1]
        assert [event.kind for event in told] == ["opened", "refused"]
        assert (refused.function, refused.signature, refused.platform) == ("f", "f32[3,4]", "cpu")
        assert refused.error == "SignatureMismatch"
        assert "x: expected f32[2,4], found f32[3,4]" in "\n".join(refused.reasons)

    def test_a_call_that_has_no_signature(
        self, tmp_path: Path, native: Built, told: list[Any]
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native]))
        with pytest.raises(SignatureMismatch):
            library.f(X, X)
        assert (told[-1].kind, told[-1].signature, told[-1].platform) == ("refused", "", "")

    def test_refused_then_served_by_jit(
        self, tmp_path: Path, native: Built, source: None, told: list[Any]
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native], fallback="jit"))
        library.f(OTHER)
        assert [event.kind for event in told] == ["opened", "refused", "fallback"]
        assert (told[-1].policy, told[-1].signature) == ("jit", "f32[3,4]")
        assert told[-1].reasons == told[-2].reasons
        assert told[-1].seconds > 0

    def test_compiled_once_then_fallback(
        self, tmp_path: Path, native: Built, told: list[Any]
    ) -> None:
        refused, other = native.replace(jaxlib="0"), portable(native, double)
        library = aotbuild.load(write(tmp_path, [refused, other], fallback="portable"))
        library.f(X)
        library.f(X)
        kinds = [event.kind for event in told]
        assert kinds == ["opened", "refused", "compiled", "fallback", "refused", "fallback"]
        compiled = told[2]
        assert (compiled.package, compiled.function) == ("demo", "f")
        assert (compiled.signature, compiled.platform) == ("f32[2,4]", "cpu")
        assert compiled.bytes == other.record.blob.size

    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    def test_padded(self, tmp_path: Path, native: Built, told: list[Any], arrays: str) -> None:
        padding = Padding((PaddedDim("batch", 0),), ((2,),), (((0, 0),),), (((0, 0),),))
        function = dataclasses.replace(native.function, pad=padding)
        padded = dataclasses.replace(native, function=function)
        library = aotbuild.load(write(tmp_path, [padded]), arrays=arrays)
        library.count_calls()
        for _ in range(2):
            np.testing.assert_array_equal(library.f(X[:1]), X[:1] * 2)
        expected = events.Padded("demo", "f", "f32[1,4]", "cpu", "batch 1 → 2")
        assert [event for event in told if event.kind == "padded"] == [expected, expected]
        assert library.stats()["calls"] == {"f": {"f32[1,4]": 2}}

    def test_transformed(
        self, tmp_path: Path, native: Built, source: None, told: list[Any]
    ) -> None:
        library = aotbuild.load(write(tmp_path, [native]))
        jax.vmap(library.f)(X)
        assert told[-1] == events.Transformed("demo", "f", "", "")


class TestSubscribing:
    def test_unsubscribed(self, tmp_path: Path, native: Built) -> None:
        told: list[events.Event] = []
        unsubscribe = aotbuild.subscribe(told.append)
        unsubscribe()
        unsubscribe()
        aotbuild.load(write(tmp_path, [native])).f(X)
        assert told == []

    def test_what_cannot_be_called_is_refused(self) -> None:
        with pytest.raises(AotbuildError, match="expected a function of one argument"):
            aotbuild.subscribe(None)  # type: ignore[arg-type]

    def test_twice_is_told_twice(self, tmp_path: Path, native: Built, told: list[Any]) -> None:
        unsubscribe = aotbuild.subscribe(told.append)
        aotbuild.load(write(tmp_path, [native]))
        unsubscribe()
        assert [event.kind for event in told] == ["opened", "opened"]

    def test_an_error_is_logged_once_and_breaks_nothing(
        self, tmp_path: Path, native: Built, told: list[Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(event: events.Event) -> None:
            raise ValueError(event.kind)

        unsubscribe = aotbuild.subscribe(fail)
        with caplog.at_level(logging.WARNING, "aotbuild"):
            library = aotbuild.load(write(tmp_path, [native]))
            np.testing.assert_array_equal(library.f(X), X * 2)
        unsubscribe()
        [record] = caplog.records
        assert "on the event opened: ValueError: opened" in record.getMessage()
        assert [event.kind for event in told] == ["opened", "loaded"]


def test_events_are_plain_data(native: Built) -> None:
    event = events.Padded("p", "f", "f32[3]", "cpu", "batch 3 → 4")
    assert dataclasses.asdict(event) == {
        "package": "p",
        "function": "f",
        "signature": "f32[3]",
        "platform": "cpu",
        "sizes": "batch 3 → 4",
    }
    assert event.kind == "padded"
