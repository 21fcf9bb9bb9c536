"""`aotbuild stubs`: types of a package's functions, which type checkers accept."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cli import invoke
from support.projects import build, write_project
from support.reports import make_function, make_record, write_package

from aotbuild.format.about import UNKNOWN, About, Parameter
from aotbuild.format.aval import Aval
from aotbuild.format.signature import Function, Static
from aotbuild.runtime.library import Library
from aotbuild.runtime.typed import TypedLibrary

pytestmark = pytest.mark.any_jax

MODEL = '''
import functools
from typing import Any, NamedTuple
import jax, jax.numpy as jnp

class Params(NamedTuple):
    w: jax.Array
    b: jax.Array

def init() -> Params:
    return Params(jnp.ones((4, 2)), jnp.zeros(2))

@functools.partial(jax.jit, static_argnames=("mode",))
def predict(params, x, /, scale=1.0, *, mode="relu"):
    """Return the scores of a batch."""
    return {"scores": getattr(jax.nn, mode)(x @ params.w + params.b)}

def step(state, x):
    return state, (x, [x, x])
'''
MANIFEST = """
version: 1
package: proj
targets: [cpu]
functions:
  predict:
    call: proj.model:predict
    args: [params: {like: "proj.model:init"}, x: "f32[batch, 4]"]
    static: {mode: [relu, tanh]}
    dims: {batch: [1, 4]}
  step: {call: "proj.model:step", args: [state: {like: "proj.model:init"}, x: "f32[4]"]}
"""
# Strict mypy reports each `type: ignore` that hides no error, so those say what it has to find.
PROGRAM = """
from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import aotbuild
import jax
import numpy as np
import proj.model
from aotbuild.runtime.library import Library
from aotbuild.runtime.preloading import Preloading

if TYPE_CHECKING:
    from proj_types import Proj

assert_type(aotbuild.load("proj"), Library)
aotbuild.load("proj").predict("anything")
library: Proj = aotbuild.load("proj")
params, x = proj.model.init(), np.ones((1, 4), np.float32)
assert_type(library.predict(params, x, mode="tanh")["scores"], jax.Array)
assert_type(library.step(params, x), tuple[proj.model.Params, tuple[jax.Array, list[jax.Array]]])
assert_type(library.on("cpu"), "Proj")
assert_type(library.preload("step", wait=False), Preloading)
library.predict.records
library.predict(params, x, mode="gelu")  # type: ignore[arg-type]
library.predict(params, x, scale=2.0)  # type: ignore[call-arg]
library.predict(params=params, x=x)  # type: ignore[call-arg]
library.predict(x, x)  # type: ignore[arg-type]
library.predit(params, x)  # type: ignore[attr-defined]


def opened() -> Proj:
    return aotbuild.load("proj")
"""


def stub_of(tmp_path: Path, function: Function, *trees: Any, **options: Any) -> ast.Module:
    """Return the parsed stub of a function with a record for each `(args, kwargs, result)`."""
    folder = write_package(tmp_path / "pack", [function], [record_of(*tree) for tree in trees])
    result = invoke("stubs", folder, *(x for pair in options.items() for x in pair))
    assert result.exit_code == 0, result.output
    return ast.parse(result.stdout)


def record_of(args: Any, kwargs: Any, out: Any, statics: Any = ()) -> Any:
    record = make_record()
    leaves = tuple(Aval((2,), "float32") for _ in range(str([args, kwargs]).count("'*'")))
    outputs = tuple(Aval((2,), "float32") for _ in range(str(out).count("'*'")))
    signature = replace(record.signature, tree=["tuple", args, kwargs], leaves=leaves)
    calling = replace(record.calling, kept=tuple(range(len(leaves))), donated=(), in_specs=())
    return replace(
        record,
        signature=replace(signature, statics=statics),
        calling=replace(calling, outputs=outputs, out_tree=out),
    )


def calls_of(stub: ast.Module) -> list[str]:
    """Return each `__call__` of the first kernel, as Python writes it."""
    kernel = next(node for node in stub.body if isinstance(node, ast.ClassDef))
    found = [node for node in kernel.body if isinstance(node, ast.FunctionDef)]
    return [
        f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"
        for node in found
        if node.returns
    ]


def about(*parameters: tuple[Any, ...]) -> dict[str, Any]:
    return About(parameters=tuple(Parameter(*each) for each in parameters)).to_json()


EITHER, NAMED = "positional_or_keyword", "keyword_only"
NO_KWARGS = ["dict", []]


class TestCalls:
    def test_trees(self, tmp_path: Path) -> None:
        function = make_function(
            positional=("a", "b", "c"), dynamic=("a", "b", "c"), keywords=(), statics=(), donate=()
        )
        args = [
            "tuple",
            ["dict", ["w"], "*"],
            ["list", ["tuple", "*", ["none"]]],
            ["node", "m.n:Layer", None, "*"],
        ]
        out = ["tuple", "*", ["dict", ["x", "y"], "*", "*"], ["list", "*", ["none"]], ["tuple"]]
        assert calls_of(stub_of(tmp_path, function, (args, NO_KWARGS, out))) == [
            (
                "(self, a: dict[str, Any], b: list[Any], c: m.n.Layer) -> "
                "tuple[jax.Array, dict[str, jax.Array], list[Any], tuple[()]]"
            )
        ]

    def test_parameters_that_are_compiled_in(self, tmp_path: Path) -> None:
        """Those after them can be given by name only."""
        function = make_function(
            positional=("x", "hidden", "k", "y"),
            dynamic=("x", "y"),
            keywords=(),
            statics=(Static("k", 3),),
            donate=(),
            about=about(
                ("x", "positional_only"), ("hidden", EITHER, UNKNOWN), ("k", EITHER, 3),
                ("y", EITHER, 0), ("z", NAMED, None),
            ),
        )  # fmt: skip
        tree = (["tuple", "*", "*"], NO_KWARGS, "*", (("k", 3),))
        assert calls_of(stub_of(tmp_path, function, tree)) == [
            "(self, x: ArrayLike, /, *, k: int=..., y: ArrayLike) -> jax.Array"
        ]

    def test_an_array_after_a_static_with_a_default(self, tmp_path: Path) -> None:
        function = make_function(
            positional=("x", "k", "y"), dynamic=("x", "y"), keywords=(), donate=(),
            statics=(Static("k", 3),),
            about=about(("x", EITHER), ("k", EITHER, 3), ("y", EITHER, 0)),
        )  # fmt: skip
        tree = (["tuple", "*", "*"], NO_KWARGS, "*", (("k", 3),))
        assert calls_of(stub_of(tmp_path, function, tree)) == [
            "(self, x: ArrayLike, k: int=..., *, y: ArrayLike) -> jax.Array"
        ]

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (["relu", "a'b"], """Literal["a'b", 'relu']"""),
            ([True, False], "bool"),
            ([1, 2.0, None], "float | int | None"),
            ([{"tuple": [1]}], "Any"),
            ([{"enum": ["m:E", "A"]}], "Any"),
        ],
    )
    def test_static_arguments(self, tmp_path: Path, values: list[Any], expected: str) -> None:
        function = make_function(
            positional=("x", "k"), dynamic=("x",), keywords=(), statics=(Static("k"),), donate=()
        )
        trees = [(["tuple", "*"], NO_KWARGS, "*", (("k", value),)) for value in values]
        (call,) = calls_of(stub_of(tmp_path, function, *trees))
        assert call == f"(self, x: ArrayLike, k: {expected}) -> jax.Array"

    def test_other_trees_are_overloads(self, tmp_path: Path) -> None:
        function = make_function(
            positional=("x",), dynamic=("x",), keywords=(), statics=(), donate=()
        )
        trees = [(["tuple", tree], NO_KWARGS, tree) for tree in ("*", ["tuple", "*", "*"])]
        stub = stub_of(tmp_path, function, *trees)
        assert sorted(calls_of(stub)) == [
            "(self, x: ArrayLike) -> jax.Array",
            "(self, x: tuple[ArrayLike, ArrayLike]) -> tuple[jax.Array, jax.Array]",
        ]
        assert ast.unparse(stub).count("@overload") == 2

    def test_an_entry_that_serves_calls_of_another(self, tmp_path: Path) -> None:
        plain = {"positional": ("x",), "dynamic": ("x",), "keywords": (), "statics": ()}
        first = make_function("f", **plain, donate=(), overloads=("g",))
        other = make_function("g", **plain, donate=(), overload_of="f")
        pair = ["tuple", ["tuple", ["tuple", "*", "*"]], NO_KWARGS]
        record = make_record("g")
        tree = replace(record.signature, tree=pair, leaves=record.signature.leaves * 2)
        records = [make_record("f"), replace(record, signature=tree)]
        folder = write_package(tmp_path / "pack", [first, other], records)
        stub = ast.parse(invoke("stubs", folder).stdout)
        assert sorted(calls_of(stub)) == [
            "(self, x: ArrayLike) -> jax.Array",
            "(self, x: tuple[ArrayLike, ArrayLike]) -> jax.Array",
        ]

    def test_numpy(self, tmp_path: Path) -> None:
        function = make_function(
            positional=("x",), dynamic=("x",), keywords=(), statics=(), donate=()
        )
        stub = stub_of(
            tmp_path, function, (["tuple", "*"], NO_KWARGS, "*"), **{"--arrays": "numpy"}
        )
        assert calls_of(stub) == ["(self, x: ArrayLike) -> Array"]
        text = ast.unparse(stub)
        assert "Array = np.ndarray[Any, Any]" in text
        assert "import jax" not in text

    def test_a_docstring_with_quotes(self, tmp_path: Path) -> None:
        doc = 'Say """hello""" and \\d.'
        function = make_function(about={"doc": doc})
        tree = (["tuple", "*"], ["dict", ["scale"], "*"], "*", (("causal", True), ("k", 3)))
        stub = stub_of(tmp_path, function, tree, **{"--name": "Mine"})
        kernel, library = (node for node in stub.body if isinstance(node, ast.ClassDef))
        assert doc in (ast.get_docstring(kernel) or "")
        assert library.name == "Mine"


def test_a_name_that_is_none(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "pack", [make_function()], [make_record()])
    result = invoke("stubs", folder, "--name", "no name")
    assert result.exit_code == 2
    assert "--name: expected the name of a class, found 'no name'" in result.output


def test_the_protocol_has_what_a_library_has() -> None:
    public = {name for name in vars(Library) if not name.startswith("_")}
    assert {name for name in vars(TypedLibrary) if not name.startswith("_")} == public


@pytest.mark.process
def test_mypy_accepts_what_it_declares(tmp_path: Path) -> None:
    root = write_project(tmp_path, MANIFEST, model=MODEL)
    build(root)
    result = invoke("stubs", root / "proj/_aot", "-o", root / "proj_types.pyi")
    assert (result.exit_code, result.stdout) == (0, "")
    stub = (root / "proj_types.pyi").read_text()
    assert "from proj_types import Proj\n" in stub
    assert "Return the scores of a batch." in stub
    (root / "program.py").write_text(PROGRAM)
    options = ("--strict", "--follow-untyped-imports", "--cache-dir", str(tmp_path / "cache"))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "program.py"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in checked.stdout.splitlines() if line.startswith(("program", "proj_"))]
    assert found == [], checked.stdout
