"""A function that is traced twice must give one program: what is refused, and what is let through.

The project is tests/packages/impure: `aot.yaml` for what is refused, `pure.yaml` for what is not.
Its sources mark lines with `# @name`; an expectation `@name` stands for that file and line.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.projects import MANIFEST, copy_project, place_of_mark, results_of, write_project

from aotbuild.build.progress import UnitDone

pytestmark = pytest.mark.process

TWO = "is not pure: traced twice, it gave two programs"
ADVICE = "Pass what changes as an argument"
DRAWN = "random numbers were drawn from `random`"

# Name of the function in the manifest: parts of the message.
CASES: dict[str, tuple[str, ...]] = {
    "clock": (
        TWO,
        "@clock",
        "in clock",
        "first trace:  add(%0, ",
        "second trace: add(%0, ",
        ADVICE,
    ),
    "literal": (TWO, "@literal", "in literal", "mul(%0, 0.", DRAWN),
    "array": (TWO, "in array", "constants array float32[4] ", "drawn from `numpy.random`"),
    "in_jit": (TWO, "@in_jit", "in _inner", "sub(%0, 0.", DRAWN),
    "counter": (
        "proj.impure:counter is not pure",
        "@counter",
        "first trace:  mul(%0, 1.0:float32) -> float32[4]",
        "second trace: mul(%0, 2.0:float32) -> float32[4]",
    ),
    "grows": (TWO, "@grows", "first trace:  results %1", "second trace: sin(%1)"),
    "shrinks": (TWO, "@shrinks", "first trace:  cos(%0)"),
    "tree": (TWO, "@tree", "the trees of the results differ"),
    "axis": (TWO, "@axis", "cumsum axis=1 ", "cumsum axis=0 "),
    "closure": (TWO, "@closure"),
    "once": (
        "is not pure: traced once, it raises when traced again",
        "@once",
        "ValueError: called [1] times already",
        ADVICE,
    ),
    "coarse_clock": (TWO, "@coarse_clock", "the clock `time.time` was read while tracing, at "),
    "imported_clock": (TWO, "@imported_clock", "the clock `time.time` was read", "imported_clock"),
    "date": (TWO, "@date", "the clock `datetime.datetime.now` was read while tracing, at "),
    "local_time": (TWO, "@local_time", "the clock `time.strftime` was read while tracing, at "),
    "tokens": (TWO, "@tokens", "random bytes were drawn from `os.urandom` while tracing, at "),
    "drawn_once": (TWO, f"{DRAWN} while tracing, at ", "@drawn_once", "in _drawn"),
}
KEPT = "keeps a traced value, and reads it when it is traced again"
# What is compiled, and whether a note says that it reads what its first trace kept.
_SILENT = (
    "counts registers fills seeded nested lazy library keeps_global keeps_closure "
    "keeps_in_loop logs times draws from_file"
)
_NOTED = "guided cached cached_property averaged library_table"
PURE = {**dict.fromkeys(_SILENT.split(), False), **dict.fromkeys(_NOTED.split(), True)}


@pytest.fixture(scope="module")
def impure(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, UnitDone]]:
    folder = tmp_path_factory.mktemp("impure")
    root = copy_project("impure", folder)
    return root, results_of(root)


@pytest.mark.parametrize("name", CASES)
def test_refused(impure: tuple[Path, dict[str, UnitDone]], name: str) -> None:
    root, results = impure
    failure = results[name].failure
    assert failure is not None
    assert failure.stage == "trace"
    for part in CASES[name]:
        assert place_of_mark(root, part) in failure.message, failure.message
    for hidden in ("site-packages/jax/", "aotbuild/build", "object at 0x"):
        assert hidden not in failure.message, failure.message
    assert max(map(len, failure.message.splitlines())) < 300


def test_every_case_is_in_the_manifest(impure: tuple[Path, dict[str, UnitDone]]) -> None:
    assert set(impure[1]) == set(CASES)


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> dict[str, UnitDone]:
    folder = tmp_path_factory.mktemp("pure")
    root = copy_project("impure", folder)
    shutil.copy(root / "pure.yaml", root / MANIFEST)
    np.save(root / "proj" / "table.npy", np.arange(4, dtype=np.float32))
    return results_of(root)


@pytest.mark.parametrize("name", PURE)
def test_compiled(pure: dict[str, UnitDone], name: str) -> None:
    assert pure[name].failure is None, pure[name].failure
    assert any(KEPT in note for note in pure[name].notes) == PURE[name]


def test_a_value_that_another_trace_left(tmp_path: Path) -> None:
    """Only one that a module's import left is there: each trace has a process of its own."""
    code = (
        "import jax\nKEPT = []\ndef keeps(x):\n    KEPT.append(x)\n    return x\n"
        "jax.eval_shape(keeps, 1.0)\ndef same(x):\n    return x\n"
        "def reads(x):\n    return x + KEPT[0]\n"
    )
    manifest = "version: 1\npackage: proj\nfunctions:\n" + "".join(
        f'  {name}: {{call: "proj.code:{name}", args: [{{x: "f32[2]"}}]}}\n'
        for name in ("keeps", "same", "reads")
    )
    results = results_of(write_project(tmp_path / "here", manifest, code=code))
    assert [name for name, done in results.items() if done.failure] == ["reads"]
    assert "reads a traced value that another trace left\n" in str(results["reads"].failure)


# Each process imports another one: what a module draws or reads while it is imported.
IMPORTED = {
    "draws": "import numpy as np\nW = np.random.default_rng().normal(size=3).astype('f4')\n",
    "clock": "import time\nW = time.time_ns() % 1_000_003\n",
    "seeded": "import numpy as np, random\n"
    "W = np.random.normal(size=3).astype('f4') * random.random()\n",
}


def test_what_a_module_draws_while_it_is_imported(tmp_path: Path) -> None:
    """Generators that every worker seeds give the same numbers in each process."""
    code = {name: f"{text}def f(x):\n    return x * W\n" for name, text in IMPORTED.items()}
    manifest = "version: 1\npackage: proj\nfunctions:\n" + "".join(
        f'  {name}: {{call: "proj.{name}:f", args: [{{x: "f32[3]"}}]}}\n' for name in IMPORTED
    )
    results = results_of(write_project(tmp_path / "here", manifest, **code))
    assert [name for name, done in results.items() if done.failure] == ["draws", "clock"]
    assert TWO in str(results["draws"].failure)
    assert "importing proj.seeded drew random numbers" in results["seeded"].notes[0]


STATE = """
import queue, time
import numpy as np
SEEN, LOG, RNG = [time.time()], queue.Queue(maxsize=4), np.random.default_rng(9)
def notes(x): SEEN[0] = time.time(); LOG.put(RNG.random()); return x
def late(x): return x * (time.time() - SEEN[0] > 3600)
def flips(x): return x * (RNG.random() < 0.5)
"""


def test_what_other_jobs_leave_hides_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """A clock that was read again, a generator that was drawn from, a queue that is full."""
    monkeypatch.setenv("AOTBUILD_JOBS", "1")
    calls = {"first": "notes", "late": "late", "again": "notes", "flips": "flips", "last": "notes"}
    manifest = "version: 1\npackage: proj\nfunctions:\n" + "".join(
        f'  {n}: {{call: "proj.state:{call}", args: [x: "f32[2]"]}}\n' for n, call in calls.items()
    )
    results = results_of(write_project(tmp_path / "here", manifest, state=STATE))
    assert [name for name, done in results.items() if done.failure] == ["late", "flips"]
