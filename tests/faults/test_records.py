"""Records that lie under fresh digests: what a call makes of them, on both backends."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage.forks import Forks
from faults import lies
from faults.ended import assert_refused
from faults.lies import BACKENDS, Edit
from support.cli import invoke
from support.processes import run_fresh
from support.shared import made_once, run_folder

import aotbuild
from aotbuild.errors import InvalidIndex

pytestmark = pytest.mark.process
HONEST = ("double", "both", "add", "narrow", "factor", "shifted", "first", "rows")


@pytest.mark.parametrize("arrays", BACKENDS)
def test_the_truth_is_right(
    arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    assert forks[arrays].told(honest, HONEST) == "right"
    place = lies.edited(honest, tmp_path, "both", renamed="both")
    assert forks[arrays].told(place, ["both"]) == "right"


def calling(**changes: Any) -> Edit:
    return lambda record: record["calling"].update(changes)


def requires(**changes: Any) -> Edit:
    return lambda record: record["requires"].update(changes)


def constant(aval: str) -> Edit:
    return lambda record: record["calling"]["constants"][0].__setitem__(0, aval)


def constants(*which: int) -> Edit:
    def edit(record: Any) -> None:
        found = record["calling"]
        found["constants"] = [found["constants"][index] for index in which]
        found["constant_names"] = ["" for _ in which]
        found["kept"] = list(range(len(which) + 1))

    return edit


def on_any_jaxlib(record: Any) -> None:
    record["calling"]["outputs"] = ["f32[4096]"]
    record["requires"]["jaxlib"] = None


# Of one function each: what it returns, and what its record claims.
CLAIMS = {
    "narrow": (
        *("bf16[500000000]", "bf16[4096]", "bf16[4]", "bf16[2,4]", "bf16[]", "bf16[0]"),
        *("f16[8]", "i16[8]", "u8[16]", "f32[4]", "f64[2]", "c64[2]", "i4[32]", "f8_e4m3fn[16]"),
    ),
    "double": (
        *("f32[500000000]", "f32[4096]", "f32[8]", "f32[4,4]", "f32[1,16]", "f32[0]", "f32[]"),
        *("i32[16]", "bool[64]", "c64[8]", "f64[8]", "bf16[32]"),
    ),
}


@pytest.mark.cause(5)
@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize(
    ("name", "aval"), [(name, aval) for name, avals in CLAIMS.items() for aval in avals]
)
def test_results_of_another_shape_or_dtype(
    name: str, aval: str, arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    """bf16[4096] for 16 bytes gave bytes of the heap, bf16[500000000] ended the process."""
    place = lies.edited(honest, tmp_path, name, calling(outputs=[aval]))
    answer = forks[arrays].told(place, [name])
    assert answer.startswith("refused: InvalidIndex: ")
    assert "calling.outputs[0]: the index is damaged" in answer


# The function, the lie, and where an error says that it is.
LIES: dict[str, tuple[str, Edit, str]] = {
    "no result": ("double", calling(outputs=[], out_tree=["tuple"]), "calling.outputs"),
    "two results of one": (
        "double",
        calling(outputs=["f32[16]"] * 2, out_tree=["tuple", "*", "*"]),
        "calling.outputs",
    ),
    "one result of two": ("both", calling(outputs=["f32[16]"], out_tree="*"), "calling.outputs"),
    "300 results of two": (
        "both",
        calling(outputs=["f32[16]"] * 300, out_tree=["list", *["*"] * 300]),
        "calling.outputs",
    ),
    "a large result on any jaxlib": ("double", on_any_jaxlib, "requires.jaxlib"),
    "no argument": ("add", calling(kept=[]), "calling.kept"),
    "the first argument alone": ("add", calling(kept=[0]), "calling.kept"),
    "the second argument alone": ("add", calling(kept=[1]), "calling.kept"),
    "an argument too much": ("first", calling(kept=[0, 1]), "calling.kept"),
    "the unused argument": ("first", calling(kept=[1]), "signature.leaves[1]"),
    "no LAPACK": ("factor", requires(custom_calls=[]), "requires.custom_calls"),
    "LAPACK from XLA": (
        "factor",
        requires(custom_calls=[["lapack_spotrf_ffi", "xla"]]),
        "requires.custom_calls",
    ),
    "a donation that is hidden": ("taken", calling(donated=[]), "calling.donated"),
    "another donation": ("taken", calling(donated=[0]), "calling.donated"),
    "no constant": ("shifted", constants(), "calling.kept"),
    "a constant twice": ("shifted", constants(0, 0), "calling.kept"),
    **{
        f"a constant {aval}": ("shifted", constant(aval), "calling.constants[0]")
        for aval in ("f32[8]", "f32[4,4]", "f32[500000000]", "i32[16]", "f64[8]", "bf16[32]")
    },
}


@pytest.mark.cause(5)
@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("lie", LIES)
def test_another_number_of_arrays_or_other_calls(
    lie: str, arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    name, edit, at = LIES[lie]
    answer = forks[arrays].told(lies.edited(honest, tmp_path, name, edit), [name])
    assert answer.startswith("refused: InvalidIndex: ")
    assert f"{at}: " in answer


@pytest.mark.cause(5)
@pytest.mark.parametrize("arrays", BACKENDS)
def test_a_lie_beside_the_truth(
    arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    """An executable is loaded once; another record of the same bytes is still compared with it."""
    large = calling(outputs=["f32[4096]"])
    functions = {"double": ("double", None, None), "lie": ("double", large, None)}
    place = lies.together(honest, tmp_path, functions)
    assert forks[arrays].told(place, ["double"]) == "right"
    answer = forks[arrays].told(place, {"double": "double", "lie": "double"})
    assert "lie cpu" in answer
    assert "calling.outputs[0]: the index is damaged" in answer


# --- numbers of devices -------------------------------------------------------------------------


def on_devices(count: int, mesh: dict[str, int], size: int, spec: list[Any] | None) -> Edit:
    """Claim `f32[size]` in and out on a mesh, each sharded by `spec`."""

    def edit(record: Any) -> None:
        specs = [] if spec is None else [spec]
        record["target"] = f"{record['target'].rpartition(':')[0]}:{count}"
        record["requires"]["devices"] = count
        record["signature"]["leaves"] = [f"f32[{size}]"]
        record["calling"].update(
            mesh=[[axis, n] for axis, n in mesh.items()],
            in_specs=specs,
            out_specs=specs,
            outputs=[f"f32[{size}]"],
        )

    return edit


# The function, the lie, and the size of the argument in a call that fits the lie.
DEVICES: dict[str, tuple[str, Edit, int]] = {
    "two as one": ("halves", on_devices(1, {}, 4, None), 4),
    "two as four": ("halves", on_devices(4, {"d": 4}, 16, ["d"]), 16),
    "two as a mesh of four": ("halves", on_devices(4, {"d": 2, "e": 2}, 8, ["d"]), 8),
    "one as two copies": ("alone", on_devices(2, {"d": 2}, 4, []), 4),
    "one as two halves": ("alone", on_devices(2, {"d": 2}, 8, ["d"]), 8),
}


MESHES = """
import pathlib, sys
import numpy as np
from support import packages
x, spec = np.ones(8, np.float32), ("d",)
mesh = {"mesh": {"d": 2}, "in_specs": {"x": spec}, "out_spec": spec}
built = [packages.build("halves", lambda x: x * 2, {"x": x}, **mesh)]
built += [packages.build("alone", lambda x: x * 2, {"x": x[:4]})]
packages.write(pathlib.Path(sys.argv[1]), built)
"""


@pytest.fixture(scope="module")
def meshes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `_aot` folder of functions on one device and on two; beside it are calls by size."""

    def make(folder: Path) -> None:
        run_fresh(MESHES, str(folder), devices=2)
        given = {f"{size}/in0": np.arange(size, dtype=np.float32) for size in (4, 8, 16)}
        wanted = {name.replace("in", "out"): x * 2 for name, x in given.items()}
        np.savez(folder / lies.CASES, **given, **wanted)

    return made_once(run_folder(tmp_path_factory) / "meshes", make) / "_aot"


@pytest.fixture(scope="module")
def on_four(meshes: Path) -> Iterator[dict[str, Forks]]:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    servers = {arrays: Forks(meshes.parent / lies.CASES, arrays, **flags) for arrays in BACKENDS}
    yield servers
    for server in servers.values():
        server.close()


def test_the_true_number_of_devices(meshes: Path, on_four: dict[str, Forks]) -> None:
    assert on_four["jax"].told(meshes, {"halves": "8", "alone": "4"}) == "right"
    assert on_four["numpy"].told(meshes, {"alone": "4"}) == "right"


@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("lie", DEVICES)
def test_another_number_of_devices(
    lie: str, arrays: str, meshes: Path, on_four: dict[str, Forks], tmp_path: Path
) -> None:
    """XLA ends the process for most of them, and halves may be calculated for none."""
    name, edit, size = DEVICES[lie]
    answer = on_four[arrays].told(lies.edited(meshes, tmp_path, name, edit), {name: str(size)})
    if arrays == "numpy" and lie != "two as one":  # that backend has one CPU device
        assert answer.startswith("refused: NoExecutable: ")
    else:
        assert answer.startswith("refused: InvalidIndex: ")
        assert "requires.devices: the index is damaged" in answer


@pytest.mark.parametrize("arrays", BACKENDS)
def test_the_executable_of_another_function(
    arrays: str, meshes: Path, on_four: dict[str, Forks], tmp_path: Path
) -> None:
    _, _, records = lies.objects(meshes)
    (halves,) = records["halves"]
    place = lies.edited(
        meshes, tmp_path, "alone", lambda record: record.update(blob=halves["blob"])
    )
    answer = on_four[arrays].told(place, {"alone": "4"})
    assert answer.startswith("refused: InvalidIndex: ")


# --- functions ----------------------------------------------------------------------------------


def fields(**changes: Any) -> Edit:
    return lambda function: function.update(changes)


def pad(**changes: Any) -> Edit:
    return lambda function: function["pad"].update(changes)


# Lies of a function, not of its record: what it is, and the edit.
FUNCTIONS: dict[str, tuple[str, Edit]] = {
    "a static array": ("double", fields(statics=[["x"]])),
    "a static default of no value": ("double", fields(statics=[["x", {"zork": 1}]])),
    "a static value that calls lack": ("double", fields(statics=[["k"]])),
    "an array of another name": ("double", fields(dynamic=["y"])),
    "an array twice": ("double", fields(keywords=["x"])),
    "no array among the parameters": ("double", fields(dynamic=[])),
    "a keyword that calls lack": ("double", fields(keywords=["y"])),
    "no array": ("double", fields(dynamic=[], positional=[])),
    "donation of nothing": ("double", fields(donate=["z"])),
    "a wrap that is none": ("double", fields(wrap="zork")),
    "ignored data that is not there": ("double", fields(ignored=[["x", [0, 0, 9], 3]])),
    "a path of text": ("double", fields(ignored=[["x", ["a"], None]])),
    "padding of nothing": ("rows", pad(dims=[])),
    "padding with text": ("rows", pad(dims=[["n", "zork", False]])),
    "padding to a negative size": ("rows", pad(buckets=[[-1]])),
    "padding to no size": ("rows", pad(buckets=[])),
    "padding of a dim that is none": ("rows", pad(leaves=[[[0, 7]]])),
    "results of a dim that is none": ("rows", pad(outputs=[[[0, 7]]])),
    "an axis that results lack": ("rows", pad(outputs=[[[63, 0]]])),
    "a parameter that is no name": ("double", fields(positional=["x", "a b"])),
    "a static that is no name": ("double", fields(statics=[["x: int\n    import os", 1]])),
    "a keyword of Python": ("double", fields(keywords=["class"])),
    "results that are not there": ("rows", pad(outputs=[[[0, 0]], [[0, 0]]])),
}


@pytest.mark.cause(14)
@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("lie", FUNCTIONS)
def test_functions_that_lie(
    lie: str, arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    name, edit = FUNCTIONS[lie]
    answer = forks[arrays].told(lies.edited(honest, tmp_path, name, function=edit), [name])
    assert answer.startswith("refused: ") or (answer == "right" and name == "double")


X, Y = ["x", "positional_or_keyword"], ["y", "keyword_only"]
# What an index says of parameters for people, and what its functions then have.
PARAMETERS: dict[str, dict[str, Any]] = {
    "no name": {"about": {"parameters": [["a\x1b b", "positional_or_keyword"]]}},
    "a keyword": {"about": {"parameters": [["class", "positional_or_keyword"]]}},
    "a name twice": {"about": {"parameters": [X, X]}},
    "another order": {"about": {"parameters": [Y, X]}},
    "no default after one": {"about": {"parameters": [[*X, 1], ["y", "positional_or_keyword"]]}},
    "no default after one, of a call": {"about": {}, "positional": ["w", "x"]},
    "an empty name": {"about": {"parameters": [["", "positional_or_keyword"]]}},
    "no name, of a call": {"about": {}, "positional": ["x", "a b"]},
    "code in the place of a name": {"statics": [["k: int) -> 1: ...\n    import os", 1]]},
}


@pytest.mark.cause(14)
@pytest.mark.parametrize("lie", PARAMETERS)
def test_parameters_that_python_does_not_know(lie: str, honest: Path, tmp_path: Path) -> None:
    place = lies.edited(honest, tmp_path, "double", function=fields(**PARAMETERS[lie]))
    for words in (("inspect", place), ("diff", place, place)):
        assert_refused(invoke(*words), codes=[0, 7])
    try:
        library = aotbuild.load(place, arrays="numpy")
        assert "double" in f"{library.double!r} {library.double.__doc__}"
        inspect.signature(library.double)
    except InvalidIndex:
        pass


# What a build says of itself, where calls and commands read it.
PROVENANCE = {"label": {}, "jax": 3, "dims": [], "config": "x", "compiler_options": [1]}


@pytest.mark.cause(14)
@pytest.mark.parametrize("name", PROVENANCE)
def test_provenance_of_another_type(name: str, honest: Path, tmp_path: Path) -> None:
    edit: Edit = lambda record: record["provenance"].update({name: PROVENANCE[name]})  # noqa: E731
    place = lies.edited(honest, tmp_path, "double", edit)
    assert_refused(invoke("verify", place, "--no-run"), f"provenance.{name}: expected", codes=[9])
    with pytest.raises(InvalidIndex, match=f"provenance.{name}"):
        aotbuild.load(place, arrays="numpy").double(np.zeros(3, np.float32))
