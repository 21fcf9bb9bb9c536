"""Result trees that lie under fresh digests: what a call makes of them, on both backends.

jaxlib makes treedefs of whatever it is told, and several ended the process when they were used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from damage.forks import Forks
from faults import lies
from faults.lies import BACKENDS
from support.processes import TESTS

pytestmark = pytest.mark.process
TYPES = TESTS / "packages" / "lying"
NAMES = ("lying_types", "lying_exit", "lying_error", "nosuch")
DEEP: Any = ["tuple", "*", "*"]
for _ in range(230):
    DEEP = ["list", DEEP]


def node(name: str, data: Any = None, children: int = 2) -> list[Any]:
    return ["node", name, data, *["*"] * children]


def pairs(*keys: Any) -> dict[str, Any]:
    """The data of a defaultdict: its default, and its keys."""
    return {"tuple": [None, {"tuple": list(keys)}]}


# Trees of two leaves, and what the error says.
BUILTINS = {
    "None with children": (node("types:NoneType"), "calling.out_tree"),
    "None as a builtin": (node("builtins:NoneType"), ""),
    "a dict with a tuple": (node("builtins:dict", {"tuple": ["a", "b"]}), "calling.out_tree"),
    "a dict with keys": (node("builtins:dict", ["a", "b"]), "calling.out_tree"),
    "a dict with one key": (node("builtins:dict", ["a"]), "calling.out_tree"),
    "a list": (node("builtins:list"), "calling.out_tree"),
    "a tuple with data": (node("builtins:tuple", {"dict": []}), "calling.out_tree"),
    "a None inside": (["tuple", "*", node("types:NoneType", children=1)], "calling.out_tree[2]"),
    "an alias of a dict": (node("lying_types:AN_ALIAS", ["a", "b"]), "lying_types:AN_ALIAS"),
    "an object": (node("builtins:object"), "builtins:object"),
    "a type": (node("builtins:type"), "builtins:type"),
    "an int": (node("builtins:int"), "builtins:int"),
    "a function": (node("builtins:len"), "builtins:len"),
    "children of kwargs": (["like_input", [1], "*", "*"], "has other children"),
    "children of a leaf": (["like_input", [0, 0], "*", "*"], "has other children"),
    "children of what is not there": (["like_input", [0, 7], "*", "*"], "has other children"),
    "none with children": (["none", "*", "*"], "calling.out_tree"),
    "a marker with children": (["static", 1, "*", "*"], "calling.out_tree"),
    "a dict of more keys": (["dict", ["a", "b", "c"], "*", "*"], "calling.out_tree"),
    "a dict of fewer keys": (["dict", ["a"], "*", "*"], "calling.out_tree"),
    "a dict of equal keys": (["dict", [1, True], "*", "*"], "calling.out_tree"),
    "a marker of the compiler": (node("aotbuild.format.tree:Marker"), ""),
    "a treedef with parts": (node("jax.tree_util:PyTreeDef"), ""),
}
MODULES = {
    "a module that exits": (node("lying_exit:Type"), "SystemExit"),
    "a module that raises": (node("lying_error:Type"), "RecursionError"),
    "a module that is not there": (node("nosuch:Type"), "nosuch"),
    "a type that is not there": (node("lying_types:Absent"), "Absent"),
    "a relative name": (node(".lying_types:Plain"), "calling.out_tree"),
    "no module": (node(":Plain"), "calling.out_tree"),
    "no name": (node("lying_types:"), "calling.out_tree"),
    "no colon": (node("lying_types"), "calling.out_tree"),
    "a path": (node("../lying_types:Plain"), "calling.out_tree"),
    "a NUL": (node("lying\0types:Plain"), "calling.out_tree"),
    "two colons": (node("lying_types:Plain:Plain"), "calling.out_tree"),
    "an overlong module": (node(f"nosuch.{'x' * 5000}:Plain"), "nosuch.xxx"),
    "an overlong name": (node(f"lying_types:{'x' * 100_000}"), "lying_types:xxx"),
    "a name of many parts": (node(f"lying_types:Plain{'.Plain' * 5000}"), "Plain"),
    "a package of many parts": (node(f"nosuch{'.x' * 5000}:Plain"), "nosuch.x.x"),
    "a number": (node(3), "calling.out_tree"),  # type: ignore[arg-type]
    "nothing": (node(None), "calling.out_tree"),  # type: ignore[arg-type]
    "a module as a type": (node("lying_types:sys"), ""),
}
STATIC = {
    "a namedtuple of three": (["namedtuple", "lying_types:Pair", "*", "*", ["none"]], "3 fields"),
    "a namedtuple of one": (["namedtuple", "lying_types:Pair", ["tuple", "*", "*"]], "1 fields"),
    "a namedtuple that is none": (
        ["namedtuple", "lying_types:Plain", "*", "*"],
        "not a namedtuple",
    ),
    "fields that are no names": (["namedtuple", "lying_types:Sized", "*", "*"], "not a namedtuple"),
    "a type that jax does not know": (node("lying_types:Plain"), "lying_types:Plain"),
    "a type that nothing equals": (node("lying_types:Incomparable"), "lying_types:Incomparable"),
    "a type that raises": (node("lying_types:Raises"), ""),
    "a type that exits": (node("lying_types:Exits"), ""),
    "a type of one part": (node("lying_types:ListOfTwo", children=1), ""),
    "a default without keys": (node("collections:defaultdict", ["a"], 2), "IndexError"),
    "a default without data": (node("collections:defaultdict"), "TypeError"),
    "a default that is none": (node("collections:defaultdict", {"tuple": [1, ["a", "b"]]}), ""),
    "a default of one key": (node("collections:defaultdict", pairs("a")), "ValueError"),
    "a default of three keys": (node("collections:defaultdict", pairs(*"abc")), "ValueError"),
    "a default of lists": (node("collections:defaultdict", pairs(["a"], ["b"])), "unhashable"),
    "an order without keys": (node("collections:OrderedDict"), "TypeError"),
    "an order of one key": (node("collections:OrderedDict", {"tuple": ["a"]}), "ValueError"),
    "an order of three keys": (node("collections:OrderedDict", {"tuple": [*"abc"]}), "ValueError"),
    "an order of lists": (node("collections:OrderedDict", [[1], [2]]), "unhashable"),
    "an order of a number": (node("collections:OrderedDict", 3), "TypeError"),
    "a partial without a function": (node("jax.tree_util:Partial"), ""),
    "a partial of data": (node("jax.tree_util:Partial", {"tuple": [1, 2]}), ""),
    "a sparse array without shape": (node("jax.experimental.sparse:BCOO"), ""),
    "unhashable keys": (["dict", [["a"], ["b"]], "*", "*"], "calling.out_tree"),
    "keys that cannot be sorted": (["dict", [None, "a"], "*", "*"], "calling.out_tree"),
    "keys of two types": (["dict", [1, "a"], "*", "*"], "calling.out_tree"),
    "keys in another order": (["dict", ["up", "down"], "*", "*"], "calling.out_tree"),
    "keys that are arrays": (
        ["dict", [{"numpy": ["i32", [1], "00000000"]}, "a"], "*", "*"],
        "out_tree",
    ),
    "keys of no value": (["dict", [{"local": ["a", 1]}, "a"], "*", "*"], ""),
    "a tree of 230 levels": (DEEP, "deeper than"),
    "a static value that is none": (["tuple", "*", "*", ["static", {"zork": 1}]], ""),
    "an order that is a number": (node("lying_types:Raises", {"ordered": 3}), "out_tree"),
    "an order of a number's": (node("lying_types:Raises", {"ordered": [3, 3]}), "out_tree"),
    "data of a huge array": (node("lying_types:Raises", {"numpy": ["f4", [1 << 40], ""]}), ""),
    "data of a dtype that is none": (node("lying_types:Raises", {"dtype": "zork"}), ""),
    "data that names nothing": (node("lying_types:Raises", {"name": "nosuch:x"}), ""),
    "data of an enum that is none": (
        node("lying_types:Raises", {"enum": ["lying_types:Pair", "x"]}),
        "",
    ),
    "data of a treedef that is none": (node("lying_types:Raises", {"treedef": ["zork"]}), ""),
}


def told(
    tree: Any, arrays: str, honest: Path, forks: dict[str, Forks], place: Path, name: str = "both"
) -> str:
    def edit(record: Any) -> None:
        record["calling"]["out_tree"] = tree

    folder = lies.edited(honest, place, name, edit)
    return forks[arrays].told(folder, [name], [TYPES], allow_imports=NAMES)


def assert_refused(answer: str, says: str) -> None:
    assert answer.startswith("refused: ")
    assert says in answer
    assert len(answer) < 2000


@pytest.mark.cause(1)
@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("tree", BUILTINS)
def test_containers_that_jaxlib_believes(
    tree: str, arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    made, says = BUILTINS[tree]
    assert_refused(told(made, arrays, honest, forks, tmp_path), says)


@pytest.mark.cause(14)
@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("tree", MODULES)
def test_names_of_types(
    tree: str, arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    made, says = MODULES[tree]
    assert_refused(told(made, arrays, honest, forks, tmp_path), says if arrays == "jax" else "")


@pytest.mark.cause(14)
@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("tree", STATIC)
def test_types_that_do_not_take_their_parts(
    tree: str, arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    made, says = STATIC[tree]
    assert_refused(told(made, arrays, honest, forks, tmp_path), says if arrays == "jax" else "")
