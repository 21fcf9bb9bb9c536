"""`startup:` through a build: the options are in the executables, the figures in the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forks import forked
from support.projects import build, write_project

from aotbuild.build.pack import Package
from aotbuild.format.record import Record
from aotbuild.platforms.cpu.describe import FAST, STARTUP
from aotbuild.platforms.startup import Figures, choice
from aotbuild.store.entry import Entry
from aotbuild.worker.tuning.choose import choose, reason_not_to_measure
from aotbuild.worker.tuning.measure import is_near

pytestmark = pytest.mark.process

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
    sets = {flags.name: dict(flags.options) for flags in STARTUP.candidates}
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
    differences = forked(RUN, path=project)
    assert built.records
    assert max(differences) < 1e-5


class FakeCompiled:
    """What jax returns: only its text is looked at."""

    def as_text(self) -> str:
        return 'backend_config={"fusion_config":{"kind":"__ynn_fusion"}}'


def chosen(*rows: tuple[float, float, float] | None) -> tuple[str, dict[str, Any]]:
    """Return the set that is kept and what the record says, after these figures."""
    tuned = choice("tuned", STARTUP, "0.10.2")
    index, facts = choose(tuned, [None if row is None else Figures(*row) for row in rows], None)
    assert facts["set"] == tuned.sets[index].name
    return facts["set"], facts


class TestChosen:
    def test_the_best_and_what_was_measured(self) -> None:
        name, facts = chosen((80, 90, 18), (90, 60, 18), (25, 50, 19))
        assert name == "fast"
        assert [row["set"] for row in facts["measured"]] == ["steady", "products", "fast"]
        assert facts["measured"][0] == {
            "set": "steady",
            "load_ms": 80,
            "first_ms": 90,
            "steady_ms": 18,
        }

    def test_other_results_are_dropped(self) -> None:
        name, facts = chosen((80, 90, 18), None, (200, 50, 19))
        assert name == "steady"
        assert facts["measured"][1] == {"set": "products", "dropped": True}

    def test_without_figures_of_steady_there_is_nothing_to_compare_with(self) -> None:
        name, facts = chosen(None, (1, 1, 1), (1, 1, 1))
        assert name == "steady"
        assert "nothing could be measured" in facts["note"]

    def test_calls_of_the_user_are_not_there_in_another_process(self) -> None:
        calls = [["my_call", "user"], ["lapack_x", "jax"]]
        entry = Entry({"custom_calls": calls}, b"")
        assert reason_not_to_measure(entry, FakeCompiled(), calls_back=False) == (
            "startup: tuned: it calls my_call, which only your code registers"
        )
        entry = Entry({"custom_calls": calls[1:]}, b"")
        assert reason_not_to_measure(entry, FakeCompiled(), calls_back=False) is None

    def test_functions_are_not_called_back_with_made_up_values(self) -> None:
        entry = Entry({"custom_calls": []}, b"")
        reason = reason_not_to_measure(entry, FakeCompiled(), calls_back=True)
        assert reason is not None
        assert "calls back" in reason


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


def test_the_measuring_child_finds_aotbuild_without_its_path() -> None:
    """In an environment that uv made, aotbuild is in no folder of sys.path."""
    found = forked(
        "import json, sys, pathlib, jax, numpy as np\n"
        "from aotbuild.worker import private\n"
        "from aotbuild.worker.tuning.measure import measure\n"
        "x = np.ones(4, np.float32)\n"
        "compiled = jax.jit(lambda x: x * 2).lower(x).compile()\n"
        "data = private.serialize_executable(compiled)\n"
        "aotbuild = 'aotbuild/errors.py'\n"
        "sys.path[:] = [p for p in sys.path if not pathlib.Path(p, aotbuild).exists()]\n"
        "(figures,) = measure([data], [x], [])\n"
        "print(json.dumps(figures.first > 0))\n"
    )
    assert found is True
