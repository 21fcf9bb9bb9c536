"""What kernels and libraries say of themselves, and of the signatures that were compiled."""

from __future__ import annotations

import functools
import inspect
import pydoc
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.processes import fresh
from support.projects import build, write_project

import aotbuild
from aotbuild.errors import AotbuildError, SignatureMismatch, UnknownFunction
from aotbuild.format.aval import Aval
from aotbuild.runtime.kernel import Kernel
from aotbuild.runtime.library import Library

pytestmark = pytest.mark.process

MODEL = '''
import functools
from typing import NamedTuple
import jax, jax.numpy as jnp

class Head(NamedTuple):
    w: jax.Array
    b: jax.Array

def init():
    return {"layers": [{"w": jnp.ones((4, 4))}], "head": Head(jnp.ones((4, 2)), jnp.zeros(2))}

@functools.partial(jax.jit, static_argnames=("mode", "size"))
def predict(params, x, /, scale=1.0, *, mode="relu", size=(1, 2), norm=jnp.tanh):
    """Return the scores of a batch.

    Args:
        x: One row each.
    """
    h = getattr(jax.nn, mode)(x @ params["layers"][0]["w"])
    return {"scores": h @ params["head"].w + params["head"].b}

def step(state, x):
    return state + x

def masked(x, mask):
    return (x * mask[:, None]).sum(-1)
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
    dims: {batch: [1, 4, 16]}
  step: {call: "proj.model:step", args: [state: "f32[4]", x: "f32[4]"], donate: [state]}
  masked:
    call: proj.model:masked
    args: [x: "f32[batch, seq]", mask: "f32[batch]"]
    dims: [{batch: 2, seq: 64}, {batch: 8, seq: 8}, {batch: 8, seq: 64}]
    pad: {batch: 0}
"""
SOURCE = "predict(params, x, /, scale=1.0, *, mode='relu', size=(1, 2), norm=jax.numpy.tanh)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(write_project(tmp_path_factory.mktemp("look"), MANIFEST, model=MODEL)).folder


@pytest.fixture
def library(folder: Path) -> Library:
    return aotbuild.load(folder)


class TestKernel:
    def test_signature_is_that_of_the_source(self, library: Library) -> None:
        found = inspect.signature(library.predict)
        assert f"predict{found}" == SOURCE
        assert found.parameters["mode"].default == "relu"
        assert found.parameters["size"].default == (1, 2)
        assert found.bind({}, 1.0, mode="tanh").arguments["mode"] == "tanh"

    def test_names_are_those_of_the_source(self, library: Library) -> None:
        kernel = library.predict
        names = kernel.__name__, kernel.__qualname__, kernel.__module__
        assert names == ("predict", "predict", "proj.model")

    def test_repr_shows_a_few_signatures(self, library: Library) -> None:
        assert repr(library.predict) == (
            "<aotbuild.Kernel proj:predict: batch=1, mode='relu'; batch=1, mode='tanh'; "
            "batch=4, mode='relu' and 3 more>"
        )
        assert repr(library.step) == "<aotbuild.Kernel proj:step: f32[4], f32[4]>"

    def test_repr_of_a_kernel_whose_index_is_damaged(self, folder: Path, tmp_path: Path) -> None:
        index = (folder / "index").read_bytes()
        (tmp_path / "_aot").mkdir()
        (tmp_path / "_aot/index").write_bytes(index.replace(b'"label"', b'"lobel"'))
        library = aotbuild.load(tmp_path)
        assert repr(library.predict) == "<aotbuild.Kernel proj:predict>"
        assert "Return the scores" in library.predict.__doc__

    def test_docstring_says_what_was_compiled(self, library: Library) -> None:
        assert library.predict.__doc__ == "\n".join(
            [
                SOURCE,
                "",
                "Return the scores of a batch.",
                "",
                "Args:",
                "    x: One row each.",
                "",
                "Compiled ahead of time from proj.model:predict:",
                "",
                "    predict(batch=1, mode='relu')",
                "        params['head'].w f32[4,2]",
                "        params['head'].b f32[2]",
                "        params['layers'][0]['w'] f32[4,4]",
                "        x f32[1,4]",
                "        -> result['scores'] f32[1,2]",
                "",
                "    predict(batch=1, mode='tanh')",
                "    predict(batch=4, mode='relu')",
                "",
                "    and 3 more: library.signatures('predict')",
                "",
                "Compiled in at their defaults, so a call leaves them out: scale, size, norm.",
            ]
        )
        assert library.step.__doc__.endswith("A call takes these arguments away: state.")
        assert library.masked.__doc__.endswith("Calls are padded in batch.")

    def test_wraps_takes_all_of_it(self, library: Library) -> None:
        @functools.wraps(library.predict)
        def timed(*args: Any, **kwargs: Any) -> Any:
            return library.predict(*args, **kwargs)

        assert inspect.signature(timed) == inspect.signature(library.predict)
        assert (timed.__doc__, timed.__module__) == (library.predict.__doc__, "proj.model")

    def test_help(self, library: Library) -> None:
        text = pydoc.plain(pydoc.render_doc(library.predict))
        assert "Return the scores of a batch." in text
        assert "params['head'].w f32[4,2]" in text

    def test_the_class_describes_itself(self) -> None:
        assert str(Kernel.__doc__).startswith("A precompiled function.")
        assert "backend" in inspect.signature(Kernel).parameters
        assert "judge" in pydoc.plain(pydoc.render_doc(Kernel))

    def test_a_kernel_of_an_older_index(self, library: Library, tmp_path: Path) -> None:
        from support.packages import build as compiled
        from support.packages import write

        item = compiled(
            *("f", lambda x, k: x * k, {"x": np.ones(2, "f4")}),
            statics={"k": 3},
            defaults={"k": 2},
            positional=["x", "k"],
        )
        kernel = aotbuild.load(write(tmp_path, [item])).f
        assert str(inspect.signature(kernel)) == "(x, k=2)"
        assert repr(kernel) == "<aotbuild.Kernel demo:f: k=3>"
        assert "    f(k=3)\n        x f32[2]\n        -> result f32[2]" in kernel.__doc__


class TestLibrary:
    def test_docstring_lists_the_functions(self, library: Library) -> None:
        text = pydoc.plain(pydoc.render_doc(library))
        assert "The precompiled functions of proj:" in text
        assert f"{SOURCE}\n            Return the scores of a batch.\n" in text
        assert "batch=1, mode='relu'; batch=1, mode='tanh'; batch=4, mode='relu' and 3 more" in text

    def test_the_class_describes_itself(self) -> None:
        assert str(Library.__doc__).startswith("The precompiled functions of a package")
        assert "preload" in pydoc.plain(pydoc.render_doc(Library))


class TestSignatures:
    def test_in_order_of_their_sizes(self, library: Library) -> None:
        first, second = (library.signatures("predict") for _ in range(2))
        assert first == second
        assert len({*first, *second}) == len(first)
        found = [(info.dims, info.statics) for info in library.signatures("predict")]
        assert found == [
            ({"batch": batch}, {"mode": mode}) for batch in (1, 4, 16) for mode in ("relu", "tanh")
        ]

    def test_leaves_have_names_and_avals(self, library: Library) -> None:
        info = library.signatures("predict")[2]
        assert str(info) == "\n  ".join(
            [
                "predict(batch=4, mode='relu')",
                "params['head'].w f32[4,2]",
                "params['head'].b f32[2]",
                "params['layers'][0]['w'] f32[4,4]",
                "x f32[4,4]",
                "-> result['scores'] f32[4,2]",
            ]
        )
        assert [leaf.donated for leaf in library.signatures("step")[0].leaves] == [True, False]

    def test_trees_of_avals(self, library: Library) -> None:
        info = library.signatures("predict")[0]
        weight = Aval((4, 4), "float32")
        head = {"w": Aval((4, 2), "float32"), "b": Aval((2,), "float32")}
        assert info.arguments == {
            "params": {"layers": [{"w": weight}], "head": head},
            "x": Aval((1, 4), "float32"),
        }
        assert info.result == {"scores": Aval((1, 2), "float32")}

    def test_whether_it_runs_here(self, library: Library) -> None:
        (info,) = library.signatures("step")
        assert info.runs
        assert info.reasons == ()
        assert [verdict.record.function for verdict in info.verdicts] == ["step"]
        assert info.targets == (str(info.verdicts[0].record.target),)

    def test_why_it_does_not_run_here(self, folder: Path) -> None:
        library = aotbuild.load(folder, arrays="numpy")
        (info,) = library.signatures("step")
        with jax.enable_x64(True):
            assert not info.runs
            (reason,) = info.reasons
        assert "REFUSED" in reason
        assert "64" in reason

    @pytest.mark.parametrize("name", [3, None, ["predict"]])
    def test_a_name_that_is_no_text(self, library: Library, name: Any) -> None:
        for asked in (library.signatures, library.ready, library.preload, library.constants):
            with pytest.raises(UnknownFunction, match=r"functions: masked, predict, step"):
                asked(name)

    def test_of_an_unknown_function(self, library: Library) -> None:
        for ask in (library.signatures, lambda name: library.sizes(name, "batch")):
            with pytest.raises(UnknownFunction, match="did you mean 'predict'"):
                ask("predit")


class TestSizes:
    def test_sorted_and_each_once(self, library: Library) -> None:
        assert library.sizes("predict", "batch") == (1, 4, 16)
        assert library.sizes("masked", "seq") == (8, 64)

    @pytest.mark.parametrize(("batch", "expected"), [(0, 1), (1, 1), (2, 4), (5, 16), (16, 16)])
    def test_the_smallest_that_holds(self, library: Library, batch: int, expected: int) -> None:
        assert library.bucket("predict", batch=batch) == {"batch": expected}

    def test_several_dims_are_of_one_signature(self, library: Library) -> None:
        assert library.bucket("masked", batch=1, seq=5) == {"batch": 8, "seq": 8}
        assert library.bucket("masked", batch=1, seq=9) == {"batch": 2, "seq": 64}
        assert library.bucket("masked", seq=9, batch=3) == {"seq": 64, "batch": 8}
        assert library.bucket("masked", batch=2) == {"batch": 8}

    def test_a_padded_call_runs_at_these_sizes(self, library: Library) -> None:
        sizes = library.bucket("masked", batch=3, seq=64)
        x, mask = np.ones((3, 64), "f4"), np.ones(3, "f4")
        assert library.explain("masked", x, mask).padded == f"batch 3 → {sizes['batch']}"

    @pytest.mark.parametrize(
        ("x", "line"),
        [
            (
                np.ones((3, 8), "i4"),
                "x: expected f32[8,8], f32[8,64] or f32[2,64], found i32[3,8], padded to i32[8,8]",
            ),
            (np.ones(3, "f4"), "x: expected f32[8,8], f32[8,64] or f32[2,64], found f32[3]"),
        ],
        ids=["dtype", "rank"],
    )
    def test_what_padding_mends_is_no_difference(self, library: Library, x: Any, line: str) -> None:
        with pytest.raises(SignatureMismatch) as caught:
            library.masked(x, np.ones(3, "f4"))
        assert caught.value.trace == (line,)
        assert "Pad" not in caught.value.remedy

    def test_too_large(self, library: Library) -> None:
        with pytest.raises(AotbuildError) as caught:
            library.bucket("masked", batch=9, seq=8)
        assert str(caught.value) == (
            "masked: no compiled size holds batch=9, seq=8\n"
            "  compiled batch=2, seq=64; batch=8, seq=8; batch=8, seq=64\n"
            "Split what you pass, or add the size to dims: in the manifest and build again."
        )

    def test_an_unknown_dim(self, library: Library) -> None:
        with pytest.raises(AotbuildError, match=r"one of batch \(did you mean 'batch'\?\)"):
            library.bucket("predict", bacth=3)
        with pytest.raises(AotbuildError, match="expected dims: in the manifest"):
            library.sizes("step", "batch")

    def test_a_size_that_is_none(self, library: Library) -> None:
        with pytest.raises(AotbuildError, match=r"bucket\(\) needs a dim"):
            library.bucket("predict")
        assert library.bucket("predict", batch=np.int64(3)) == {"batch": 4}
        with pytest.raises(AotbuildError, match="expected a whole number of at least 0"):
            library.bucket("predict", batch="3")  # type: ignore[arg-type]


def test_without_jax(folder: Path) -> None:
    fresh(
        f"""
import sys, inspect
sys.modules["jax"] = None
import aotbuild
library = aotbuild.load({str(folder)!r}, arrays="numpy")
assert library.sizes("predict", "batch") == (1, 4, 16)
assert library.bucket("predict", batch=3) == {{"batch": 4}}
assert "numpy" not in sys.modules
assert library.signatures("predict")[0].runs
assert str(inspect.signature(library.predict)).startswith("(params, x, /")
assert "batch=1" in repr(library.predict) and "scores" in library.predict.__doc__
assert "The precompiled functions of proj" in library.__doc__
print("null")
"""
    )


def test_a_first_call_imports_nothing_of_it(folder: Path) -> None:
    fresh(
        f"""
import sys
import numpy as np
import aotbuild
aotbuild.load({str(folder)!r}, arrays="numpy").step(np.ones(4, "f4"), np.ones(4, "f4"))
names = ("described", "signatures", "sizes")
assert not [n for n in names if f"aotbuild.runtime.{{n}}" in sys.modules]
assert "aotbuild.format.about" not in sys.modules
print("null")
"""
    )
