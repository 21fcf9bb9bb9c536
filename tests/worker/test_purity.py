"""A function that is traced twice must give one program: what is refused, and what is let through.

The project is tests/packages/impure: `aot.yaml` for what is refused, `pure.yaml` for what is not.
Its sources mark lines with `# @name`; an expectation `@name` stands for that file and line.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.projects import MANIFEST, copy_project, write_project

from aotbuild.build.events import UnitDone, ignore
from aotbuild.build.executors.driver import run_units
from aotbuild.build.plan import make_plan
from aotbuild.build.sources import find_sources
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe

pytestmark = pytest.mark.process

TWO = "is not pure: traced twice, it gave two programs"
ADVICE = "Pass what changes as an argument"
KEPT = "keeps a traced value in the "
DRAWN = "random numbers were drawn from `random`"

# Name of the function in the manifest: parts of the message.
CASES: dict[str, tuple[str, ...]] = {
    "clock": (TWO, "@clock", "in clock", "first trace:  a:f32[4] = add b", ADVICE),
    "literal": (TWO, "@literal", "in literal", "= mul b 0.", "a constant, 0.", DRAWN),
    "array": (TWO, "@array", "select_n", "a constant, [", "drawn from `numpy.random`"),
    "generator": (TWO, "@generator", "the global `proj.impure.GENERATOR` changed while tracing"),
    "in_jit": (TWO, "@in_jit", "in _inner", "= sub b 0.", DRAWN),
    "in_scan": (TWO, "@in_scan", "= mul b 0."),
    "counter": (
        "proj.impure:counter is not pure",
        "@counter",
        "first trace:  a:f32[4] = mul b 1.0:f32[]",
        "second trace: a:f32[4] = mul b 2.0:f32[]",
        "difference:   a constant, 1.0 then 2.0",
        "the global `proj.impure.CALLS` changed while tracing: 0 -> 1 -> 2",
    ),
    "ticket": (TWO, "@ticket", "`proj.impure.TICKETS` changed while tracing: count(0) -> count(1)"),
    "grows": (
        TWO,
        "@grows",
        "second trace: a:f32[4] = sin b",
        "only the second trace has this equation",
        "`proj.impure.SEEN` changed while tracing: [] -> [0] -> [0, 1]",
    ),
    "shrinks": (TWO, "@shrinks", "first trace:  a:f32[4] = cos b", "a dict of 0 -> a dict of 1"),
    "returned": (TWO, "@returned", "result 1 is a constant, ", DRAWN),
    "tree": (TWO, "@tree", "the results form other trees", "'step1'", "'step2'"),
    "operation": (TWO, "@operation", "cos b", "sin b", "other equations", "SWITCH[0]"),
    "order": (TWO, "@order", "another input", "`proj.impure.FLIP[0]`", "0 -> 1 -> 0"),
    "axis": (TWO, "@axis", "difference:   axis, 1 then 0"),
    "closure": (TWO, "@closure", "the closure variable `proj.impure.closure.number`"),
    "default": (TWO, "@default", "the default argument `proj.impure.default.kept[0]`", "0 -> 1"),
    "uses_self": (TWO, "@uses_self", "the attribute `proj.impure.model.uses`", "0 -> 1 -> 2"),
    "uses_class": (TWO, "@uses_class", "the class attribute `proj.impure.Model.made`"),
    "once": (
        "is not pure: traced once, it raises when traced again",
        "@once",
        "ValueError: called [1] times already",
        "the global `proj.impure.ONCE` changed while tracing: [] -> [1]",
        ADVICE,
    ),
    "keeps_global": (f"{KEPT}global `proj.impure.LAST['value']`, made", "@keeps_global"),
    "keeps_by_shape": (f"{KEPT}global `proj.impure.BY_SHAPE[tuple, key ",),
    "keeps_by_size": (f"{KEPT}global `proj.impure.BY_SHAPE[(5,)]`, made", "@keeps_by_size"),
    "keeps_in_error": (f"{KEPT}global `proj.impure.ERRORS[0].args[0]`, which is an argument",),
    "keeps_argument": (f"{KEPT}global `proj.impure.ARGUMENT`, which is an argument",),
    "keeps_in_loop": (f"{KEPT}global `proj.impure.LOOP[0]`, made", "@keeps_in_loop"),
    "keeps_closure": (
        f"{KEPT}closure variable `proj.impure.keeps_closure.last`, made",
        "@keeps_closure",
        "in _make_keeper.<locals>.keeper",
        "Return it, and keep it outside",
    ),
    "cached_property": (f"{KEPT}attribute `proj.impure.model.table`, made", "@cached_property"),
    "cached": (f"{KEPT}cache around `proj.impure._table`, made", "@cached", "functools.cache"),
    "coarse_clock": (TWO, "@coarse_clock", "the clock `time.time` was read while tracing, at "),
    "imported_clock": (TWO, "@imported_clock", "the clock `time.time` was read", "imported_clock"),
    "date": (TWO, "@date", "the clock `datetime.datetime.now` was read while tracing, at "),
    "local_time": (TWO, "@local_time", "the clock `time.strftime` was read while tracing, at "),
    "tokens": (TWO, "@tokens", "random bytes were drawn from `os.urandom` while tracing, at "),
    "drawn_once": (
        "proj.impure:drawn_once may keep what only its first trace read",
        f"  {DRAWN} while tracing, at ",
        "@drawn_once",
        "in _drawn",
        ADVICE,
    ),
    "argument_kept": (f"{KEPT}global `proj.impure.FIRST[0]`, which is an argument",),
    "averaged": (f"{KEPT}attribute `proj.impure.average.value`, which is an argument",),
    "sequence": (f"{KEPT}attribute `proj.impure.numbers.value`, made", "Sequence.next"),
    "own_guide": ("keeps 2 traced values in the attribute `proj.impure.own.table`, made",),
    "library_table": (TWO, "; the second trace reads a value that the first left somewhere"),
    "guide_in_list": (
        "keeps 2 traced values in the attribute `proj.impure.GUIDES[0].table`, made",
    ),
    "cached_call": (f"{KEPT}cache around `proj.impure._scales", "@cached_call"),
}
GUIDED = (
    "the attribute `proj.pure.guide.table` keeps 2 traced values, made at @guided in Guide.start; "
    "without it, tracing again gave the same program"
)
# What is compiled, with its notes.
NOTES: dict[str, list[str]] = {
    "counts": ["the global `proj.pure.COUNT` changed while tracing: 0 -> 1 -> 2"],
    "registers": [
        (
            "the global `proj.pure.NAMES` changed while tracing: [] -> ['registers'] -> "
            "['registers', 'registers']"
        ),
        "the global `proj.pure.REGISTRY` changed while tracing: a dict of 0 -> a dict of 1",
    ],
    "fills": [
        (
            "the global `proj.pure.FILLED` changed while tracing: float64[3] -> another "
            "float64[3] -> another float64[3]"
        ),
    ],
    "lazy": ["the attribute `proj.pure.model.table` changed while tracing: nothing -> float32[4]"],
    "keeps_global": [
        (
            "the global `proj.impure.LAST['value']` keeps a traced value, made at "
            "@keeps_global in keeps_global; tracing again, nothing read it"
        ),
    ],
    "keeps_argument": [
        (
            "the global `proj.impure.ARGUMENT` keeps a traced value, an argument; tracing "
            "again, nothing read it"
        ),
    ],
    "keeps_closure": [
        (
            "the closure variable `proj.impure.keeps_closure.last` keeps a traced value, made "
            "at @keeps_closure in _make_keeper.<locals>.keeper; tracing again, nothing read it"
        ),
    ],
    "keeps_many": [
        (
            "the attribute `proj.pure.cache.values` keeps 15 traced values, made at "
            "@keeps_many in keeps_many; tracing again, nothing read it"
        ),
    ],
    "guided": [GUIDED],
    "guided_again": [GUIDED],
    "counted": ["the global `proj.pure.counter` changed while tracing, in 2 places"],
    "times": [
        (
            f"the clock `time.perf_counter` was read while tracing, at {line} in times: with "
            "another value, the program is the same"
        )
        for line in ("@times", "@uuid")
    ]
    + [
        (
            "random bytes were drawn from `os.urandom` while tracing, at @uuid in times: with "
            "another value, the program is the same"
        ),
    ],
    "draws": [
        (
            "random numbers were drawn from `numpy.random` while tracing, at @draws in draws: with "
            "another value, the program is the same"
        ),
    ],
    "drawn_once": [
        (
            "random numbers were drawn from `random` while tracing, at @drawn_once in _drawn, the "
            "first time only: a value that is kept is in the executable"
        ),
    ],
    "from_file": [
        (
            "the file `table.npy` was read while tracing, at @from_file in from_file: the "
            "executable contains what was in it"
        ),
    ],
    "logs": [],
    "seeded": [],
    "nested": [],
    "random_bits": [],
    "library": [],
    "beside": [],
    "skipped": [],
}


def run(root: Path, blobs: Path) -> dict[str, UnitDone]:
    manifest = load_manifest(root / MANIFEST)
    blobs.mkdir()
    plan = make_plan(manifest, probe())
    done = run_units(plan, find_sources(root, manifest.package), blobs, ignore)
    return {result.unit.name: result for result in done}


@pytest.fixture(scope="module")
def impure(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, UnitDone]]:
    folder = tmp_path_factory.mktemp("impure")
    root = copy_project("impure", folder)
    return root, run(root, folder / "blobs")


@pytest.mark.parametrize("name", CASES)
def test_refused(impure: tuple[Path, dict[str, UnitDone]], name: str) -> None:
    root, results = impure
    failure = results[name].failure
    assert failure is not None
    assert failure.stage == "trace"
    for part in CASES[name]:
        assert _place(root, part) in failure.message, failure.message
    for hidden in ("site-packages/jax/", "aotbuild/build", "object at 0x"):
        assert hidden not in failure.message, failure.message
    assert max(map(len, failure.message.splitlines())) < 300


def test_every_case_is_in_the_manifest(impure: tuple[Path, dict[str, UnitDone]]) -> None:
    assert set(impure[1]) == set(CASES)


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, UnitDone]]:
    folder = tmp_path_factory.mktemp("pure")
    root = copy_project("impure", folder)
    shutil.copy(root / "pure.yaml", root / MANIFEST)
    np.save(root / "proj" / "table.npy", np.arange(4, dtype=np.float32))
    return root, run(root, folder / "blobs")


@pytest.mark.parametrize("name", NOTES)
def test_side_effects_that_change_no_program_are_notes(
    pure: tuple[Path, dict[str, UnitDone]], name: str
) -> None:
    root, results = pure
    assert results[name].failure is None, results[name].failure
    tracing = [note for note in results[name].notes if "tracing" in note]
    assert tracing == [" ".join(_place(root, w) for w in note.split(" ")) for note in NOTES[name]]


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
    results = run(write_project(tmp_path / "here", manifest, code=code), tmp_path / "blobs")
    assert [name for name, done in results.items() if done.failure] == ["reads"]
    assert [note for note in results["same"].notes if "tracing" in note] == []
    failure = results["reads"].failure
    assert failure is not None
    assert failure.message.startswith(
        "proj.code:reads reads a traced value that another trace left\n"
        "  the global `proj.code.KEPT[0]` keeps a traced value\n"
    )


def _place(root: Path, part: str) -> str:
    """Return the `file:line` that `@name` stands for, or the part itself."""
    if not part.startswith("@"):
        return part
    for path in sorted((root / "proj").glob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.split("  # noqa")[0].endswith(f"# {part}"):
                return f"{path}:{number}"
    pytest.fail(f"no line is marked {part}")
