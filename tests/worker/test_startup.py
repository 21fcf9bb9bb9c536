"""`startup:` through a build: the options are in the executables, the figures in the records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.projects import build, fresh_json, write_project

from aotbuild.build.pack import Package
from aotbuild.build.startup import CANDIDATES, FAST, Choice, Figures, FlagSet, choice
from aotbuild.spec.record import Record
from aotbuild.store.local import Entry
from aotbuild.worker.tuning.choose import compile_chosen
from aotbuild.worker.tuning.measure import is_near

SOURCE = """
import jax
import jax.numpy as jnp

def mlp(w, x):
    for _ in range(3):
        x = jax.nn.softmax(jnp.tanh(x @ w), -1)
    return x

def double(x):
    return x * 2
"""
ARGS = 'args: [{w: "f32[64,64]"}, {x: "f32[8,64]"}]'
MANIFEST = f"""
version: 1
package: proj
defaults: {{verify: {{golden: never}}}}
functions:
  steady: {{call: "proj.m:mlp", {ARGS}}}
  fast: {{call: "proj.m:mlp", {ARGS}, startup: fast}}
  tuned: {{call: "proj.m:mlp", {ARGS}, startup: tuned}}
  own: {{call: "proj.m:mlp", {ARGS}, startup: fast, compiler_options: {{
    xla_cpu_experimental_ynn_fusion_type: LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT}}}}
  plain: {{call: "proj.m:double", args: [x: "f32[4]"], startup: tuned}}
"""
RUN = """
import json, sys
import numpy as np
import aotbuild
lib = aotbuild.load("proj", arrays="numpy")
rng = np.random.default_rng(0)
w, x = rng.random((64, 64), np.float32), rng.random((8, 64), np.float32)
names = ["steady", "fast", "tuned", "own"]
found = [np.asarray(getattr(lib, name)(w, x)) for name in names]
print(json.dumps([float(abs(each - found[0]).max()) for each in found]))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("startup"), MANIFEST, m=SOURCE)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def built(project: Path, store: Path) -> Package:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTBUILD_STORE", str(store))
        return build(project)


def of(package: Package) -> dict[str, Record]:
    return {record.function: record for record in package.records}


def told(package: Package, name: str) -> dict[str, Any]:
    found: dict[str, Any] = of(package)[name].provenance["startup"]
    return found


def test_the_options_are_in_the_executables(built: Package) -> None:
    data = {name: (built.folder / r.blob.path).read_bytes() for name, r in of(built).items()}
    assert b"__ynn_fusion" in data["steady"]
    assert b"__ynn_fusion" not in data["fast"]
    # What the manifest says wins.
    assert b"__ynn_fusion" in data["own"]


def test_records_say_what_was_chosen(built: Package) -> None:
    assert "startup" not in of(built)["steady"].provenance
    options = dict(FAST.options)
    assert told(built, "fast") == {"mode": "fast", "set": "fast", "options": options}
    assert told(built, "plain") == {
        "mode": "tuned",
        "set": "steady",
        "options": {},
        "note": "every set of options compiles the same: it has no matrix products for a library",
    }


def test_tuned_keeps_its_figures(built: Package) -> None:
    found = told(built, "tuned")
    sets = {flags.name: dict(flags.options) for flags in CANDIDATES}
    assert found["options"] == sets[found["set"]]
    assert [row["set"] for row in found["measured"]] == list(sets)
    for row in found["measured"]:
        assert min(row[name] for name in ("load_ms", "first_ms", "steady_ms")) > 0


def test_a_second_build_takes_all_of_it_from_the_store(
    built: Package, project: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", str(store))
    again = build(project, tmp_path / "_aot")
    # Had it measured again, the figures would be others.
    assert again.records == built.records


def test_results_are_equal_across_settings(built: Package, project: Path) -> None:
    differences = fresh_json(RUN, project)
    assert built.records
    assert max(differences) < 1e-5


class FakeMeasurer:
    """Gives the same figures each time, and keeps what it was asked."""

    def __init__(self, *rows: tuple[float, float, float] | None) -> None:
        self.figures = [None if row is None else Figures(*row) for row in rows]
        self.asked: list[tuple[bytes, ...]] = []

    def __call__(
        self, executables: Sequence[bytes], inputs: Sequence[Any], donated: Sequence[int]
    ) -> list[Figures | None]:
        self.asked.append(tuple(executables))
        return self.figures


class FakeCompiled:
    """What jax returns: only its text is looked at."""

    def as_text(self) -> str:
        return 'backend_config={"fusion_config":{"kind":"__ynn_fusion"}}'


def compile_with(flags: FlagSet, *calls: list[str]) -> tuple[Entry, Any]:
    return Entry({"custom_calls": list(calls)}, flags.name.encode()), FakeCompiled()


def chosen(measurer: FakeMeasurer, given: Choice, *calls: list[str]) -> Entry:
    entry, _ = compile_chosen(given, lambda flags: compile_with(flags, *calls), measurer, list, ())
    return entry


class TestChosen:
    tuned = choice("tuned", "cpu", "0.10.2")

    def test_the_best_and_what_was_measured(self) -> None:
        measurer = FakeMeasurer((80, 90, 18), (90, 60, 18), (25, 50, 19))
        entry = chosen(measurer, self.tuned)
        assert measurer.asked == [(b"steady", b"products", b"fast")]
        assert entry.data == b"fast"
        assert entry.facts["startup"]["measured"][0] == {
            "set": "steady",
            "load_ms": 80,
            "first_ms": 90,
            "steady_ms": 18,
        }
        assert entry == chosen(measurer, self.tuned)

    def test_other_results_are_dropped(self) -> None:
        entry = chosen(FakeMeasurer((80, 90, 18), None, (200, 50, 19)), self.tuned)
        assert entry.data == b"steady"
        assert entry.facts["startup"]["measured"][1] == {"set": "products", "dropped": True}

    def test_without_figures_of_steady_there_is_nothing_to_compare_with(self) -> None:
        entry = chosen(FakeMeasurer(None, (1, 1, 1), (1, 1, 1)), self.tuned)
        assert entry.data == b"steady"
        assert "nothing could be measured" in entry.facts["startup"]["note"]

    def test_calls_of_the_user_are_not_there_in_another_process(self) -> None:
        measurer = FakeMeasurer()
        entry = chosen(measurer, self.tuned, ["my_call", "user"], ["lapack_x", "lapack"])
        assert measurer.asked == []
        assert entry.facts["startup"]["note"] == (
            "startup: tuned: it calls my_call, which only your code registers"
        )


class TestNear:
    def test_floats_within_their_tolerance(self) -> None:
        here = np.array([1, 1000, np.nan, np.inf], np.float32)
        assert is_near(here, here * np.float32(1 + 1e-6))
        assert not is_near(here, here * np.float32(1.01))
        assert not is_near(here, here.astype(np.float64))
        assert not is_near(here, here[:3])

    def test_whole_numbers_to_the_bit(self) -> None:
        assert is_near(np.arange(3), np.arange(3))
        assert not is_near(np.arange(3), np.arange(3) + 1)
