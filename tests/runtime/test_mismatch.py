"""Mismatches: the nearest signatures, and per leaf what was expected and found."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.packages import build, write

import aotbuild
from aotbuild.errors import InvalidArgument, InvalidIndex, SignatureMismatch
from aotbuild.format.aval import Aval
from aotbuild.format.record import Record

FALLBACK = "AOTBUILD_FALLBACK=jit compiles such calls when they are made."
PARAMS = {"w": np.ones((8, 4), "float32"), "b": [np.ones(4, "float32"), None]}


OTHER_KEYS = "params: expected a dict with keys 'b', 'w', found a dict with keys"


def apply(params: Any, x: Any, scale: Any) -> Any:
    return (x @ params["w"] + params["b"][0]) * scale


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("mismatch")
    sizes = (1, 2, 8, 64)
    inputs = [{"params": PARAMS, "x": np.ones((n, 8), "float32"), "scale": 1.0} for n in sizes]
    return aotbuild.load(write(folder, [build("apply", apply, given) for given in inputs]))


def complaint(library: Any, *args: Any) -> list[str]:
    with pytest.raises(SignatureMismatch) as caught:
        library.apply(*args)
    return [line.strip() for line in caught.value.trace]


def test_the_whole_message(library: Any) -> None:
    with pytest.raises(SignatureMismatch) as caught:
        library.apply(PARAMS, np.ones((7, 8), "float32"), 1.0)
    assert str(caught.value) == (
        "apply: no signature of 4 fits this call\n"
        "  x: expected f32[8,8], f32[2,8], f32[1,8] or f32[64,8], found f32[7,8]\n"
        "Pad the call to apply(), let `pad:` in the manifest do that, or add the sizes to dims: "
        f"and build again. {FALLBACK}"
    )


def test_dtype_and_weak_type(library: Any) -> None:
    lines = complaint(library, PARAMS, np.ones((8, 8), "int32"), np.float32(1))
    assert lines == [
        "x: expected f32[8,8], f32[2,8], f32[1,8] or f32[64,8], found i32[8,8]",
        "scale: expected ~f32[], found f32[]: expected a Python number, or a weakly typed array",
    ]


def test_an_array_with_a_weak_type(tmp_path: Path) -> None:
    of_numbers = jnp.full(4, 2.0)
    assert of_numbers.weak_type
    given = {"x": np.ones(4, "float32"), "s": 1.0}
    opened = aotbuild.load(write(tmp_path, [build("f", lambda x, s: x * s, given)]))
    with pytest.raises(SignatureMismatch) as caught:
        opened.f(of_numbers, 1.0)
    assert caught.value.trace == (
        "x: expected f32[4], found ~f32[4]: expected an array without weak type",
    )
    assert caught.value.remedy.startswith("Pass x.astype(x.dtype) for x, or write ~f32[4] in the")
    assert np.array_equal(opened.f(of_numbers.astype(of_numbers.dtype), of_numbers[0]), [4.0] * 4)


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_an_array_that_lacks_a_weak_type(tmp_path: Path, arrays: str) -> None:
    """The advice was to pass a Python number, which has no axes."""
    made = build("f", lambda x: x * 2, {"x": jnp.full(4, 2.0)})
    opened = aotbuild.load(write(tmp_path, [made]), arrays=arrays)
    with pytest.raises(SignatureMismatch) as caught:
        opened.f(np.ones(4, "float32"))
    assert caught.value.remedy.startswith(
        "Pass a weakly typed array, as jax makes them of Python numbers. In numpy there is none: "
        "give it a dtype where it is made, or write f32[4] in the manifest and build again."
    )


def test_a_result_of_the_call_before(tmp_path: Path) -> None:
    """As an environment's state, which begins with Python numbers."""

    def step(state: Any, x: Any) -> Any:
        return {"total": state["total"] + x.sum(), "best": state["best"] * x[0]}

    x, first = np.ones(2, "float32"), {"total": 0.0, "best": 1.0}
    opened = aotbuild.load(write(tmp_path, [build("step", step, {"state": first, "x": x})]))
    hint = "if this is a result of the call before: `feedback: state` compiles both calls"
    with pytest.raises(SignatureMismatch, match=re.escape(hint)):
        opened.step(opened.step(first, x), x)
    numbers = {name: np.int32(0) for name in first}
    with pytest.raises(SignatureMismatch) as caught:
        opened.step(numbers, x)  # no result
    assert "feedback" not in str(caught.value)
    with pytest.raises(SignatureMismatch) as caught:
        opened.step(first, jnp.ones(3))
    assert "feedback" not in str(caught.value)


def test_paths_into_trees(library: Any) -> None:
    params = {**PARAMS, "b": [jnp.ones(5), None]}
    lines = complaint(library, params, np.ones((8, 8), "float32"), 1.0)
    assert lines == ["params['b'][0]: expected f32[4], found f32[5]"]


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"w": 1}, "params: expected a dict with keys 'b', 'w', found a dict with keys 'w'"),
        ({**PARAMS, "b": [1.0]}, "params['b']: expected a list of 2, found a list of 1"),
        ({**PARAMS, "b": (1.0, None)}, "params['b']: expected a list of 2, found a tuple of 2"),
        ({**PARAMS, "b": [1.0, 2.0]}, "params['b'][1]: expected None, found an array"),
        # As `os.listdir` gives it for bytes that are no UTF-8.
        (
            {**PARAMS, "\udcff": 1},
            f"{OTHER_KEYS} 'b', 'w', '\\udcff'",
        ),
        ({**PARAMS, "w": None}, "params['w']: expected an array, found None"),
        (1.0, "params: expected a dict with keys 'b', 'w', found an array"),
    ],
)
def test_other_trees(library: Any, params: Any, line: str) -> None:
    assert complaint(library, params, np.ones((8, 8), "float32"), 1.0) == [line]


def test_many_differences_are_cut(library: Any, tmp_path: Path) -> None:
    given = {"x": [np.ones(n, "float32") for n in range(9)]}
    built = build("f", lambda x: x[0], given)
    with pytest.raises(SignatureMismatch, match="and 4 more differences"):
        aotbuild.load(write(tmp_path, [built])).f([np.ones(n + 1, "float32") for n in range(9)])


SIZES = range(2, 602, 2)


def doubled(x: Any) -> Any:
    return x * 2


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with 300 signatures; only one of them was compiled."""
    built = build("doubled", doubled, {"x": np.ones(2, "float32")})
    items = [replace(built, record=resized(built.record, size)) for size in SIZES]
    return write(tmp_path_factory.mktemp("many"), items)


def resized(record: Record, size: int) -> Record:
    aval = Aval((size,), "float32")
    return replace(
        record,
        signature=replace(record.signature, leaves=(aval,)),
        calling=replace(record.calling, outputs=(aval,)),
        provenance={"label": f"doubled(size={size})", "dims": {"size": size}},
    )


@pytest.fixture(scope="module")
def doubling(many: Path) -> Any:
    return aotbuild.load(many).doubled


@settings(max_examples=25, deadline=None)
@given(size=st.integers(0, 700).map(lambda half: 2 * half + 1))
def test_the_nearest_of_many(doubling: Any, size: int) -> None:
    nearest = sorted(SIZES, key=lambda other: (abs(other - size), other))[:3]
    room = next((other for other in SIZES if other > size), None)
    with pytest.raises(SignatureMismatch) as caught:
        doubling(np.ones(size, "float32"))
    assert caught.value.summary == "no signature of 300 fits this call"
    listed = ", ".join(f"f32[{other}]" for other in nearest)
    assert caught.value.trace == (f"x: expected {listed} or 297 others, found f32[{size}]",)
    pad = f"Pad size to {room}, let `pad: {{size: …}}`"
    words = pad if room else "Split it into calls of size=600"
    assert caught.value.remedy.startswith(words)
    assert f"or add size={size} to dims: and build again." in caught.value.remedy


def test_only_records_of_the_nearest_are_read(many: Path, tmp_path: Path) -> None:
    """Every other record is damaged here, behind its signature."""
    folder = tmp_path / "_aot"
    data = (many / "index").read_bytes()
    for size in (*range(2, 200, 2), *range(300, 602, 2)):
        label = f"doubled(size={size})".encode()
        assert data.count(label) == 1
        data = data.replace(label, label.replace(b"size", b"sise"))
    folder.mkdir()
    (folder / "index").write_bytes(data)
    kernel = aotbuild.load(folder).doubled
    with pytest.raises(SignatureMismatch, match="Pad size to 252"):
        kernel(np.ones(251, "float32"))
    with pytest.raises(InvalidIndex):
        kernel(np.ones(601, "float32"))


def test_an_array_of_one_size_is_not_too_small(library: Any) -> None:
    """Padding is for sizes that vary: weights of another shape are other weights."""
    params = {**PARAMS, "b": [np.ones(3, "float32"), None]}
    lines = complaint(library, params, np.ones((7, 8), "float32"), 1.0)
    assert lines == [
        "params['b'][0]: expected f32[4], found f32[3]",
        "x: expected f32[8,8], f32[2,8], f32[1,8] or f32[64,8], found f32[7,8]",
    ]
    with pytest.raises(SignatureMismatch) as caught:
        library.apply(params, np.ones((7, 8), "float32"), 1.0)
    assert "Pad" not in caught.value.remedy


class TestRemedies:
    """Each cause has its own, and what is not the cause is not said."""

    @pytest.fixture
    def chosen(self, tmp_path: Path) -> Any:
        def scaled(x: Any, mode: str) -> Any:
            return x * len(mode)

        items = [
            build(
                *("f", scaled, {"x": np.ones((size, 4), "float32")}),
                statics={"mode": mode},
                positional=["x", "mode"],
            )
            for size, mode in ((1, "a"), (8, "a"), (8, "b"))
        ]
        labeled = [
            replace(
                item,
                record=replace(
                    item.record,
                    provenance={
                        "label": f"f(batch={size}, mode={mode!r})",
                        "dims": {"batch": size},
                    },
                ),
            )
            for item, size, mode in zip(items, (1, 8, 8), "aab", strict=True)
        ]
        return aotbuild.load(write(tmp_path, labeled)).f

    @pytest.mark.parametrize(
        ("x", "mode", "text"),
        [
            (
                np.ones((8, 4), "float16"),
                "a",
                (
                    "f: no signature of 3 fits this call\n"
                    "  x: expected f32[8,4] or f32[1,4], found f16[8,4]\n"
                    "Convert it: x.astype('float32'). Or add the dtype to the manifest and build "
                    "again."
                ),
            ),
            (
                np.ones((8, 4), "float32"),
                "c",
                (
                    "f: no signature of 3 fits this call\n"
                    "  static mode: expected 'a' or 'b', found 'c'\n"
                    "Pass a value that was compiled, or add 'c' to `static: {mode: …}` and build "
                    "again."
                ),
            ),
            (
                np.ones((2, 4), "float32"),
                "a",
                (
                    "f: no signature of 3 fits this call\n"
                    "  x: expected f32[1,4] or f32[8,4], found f32[2,4]\n"
                    "Pad batch to 8, let `pad: {batch: …}` in the manifest do that, or add batch=2 "
                    "to dims: and build again."
                ),
            ),
            (
                np.ones((9, 4), "float32"),
                "b",
                (
                    "f: no signature of 3 fits this call\n"
                    "  x: expected f32[8,4] or f32[1,4], found f32[9,4]\n"
                    "Split it into calls of batch=8, or add batch=9 to dims: and build again."
                ),
            ),
            (
                np.ones((8, 5), "float32"),
                "b",
                (
                    "f: no signature of 3 fits this call\n"
                    "  x: expected f32[8,4] or f32[1,4], found f32[8,5]\n"
                    "Pass arrays of the shapes that were compiled, or build for these."
                ),
            ),
            (
                np.ones((1, 4), "float32"),
                "b",
                (
                    "f: no signature of 3 fits this call; the nearest:\n"
                    "  1. f(batch=1, mode='a')\n"
                    "     static mode: expected 'a', found 'b'\n"
                    "  2. f(batch=8, mode='b')\n"
                    "     x: expected f32[8,4], found f32[1,4]\n"
                    "  3. f(batch=8, mode='a')\n"
                    "     static mode: expected 'a', found 'b'\n"
                    "     x: expected f32[8,4], found f32[1,4]\n"
                    "Add this combination to dims: and static: in the manifest, and build again. "
                    "Pad batch to 8, let `pad: {batch: …}` in the manifest do that, or add batch=1 "
                    "to dims: and build again."
                ),
            ),
            (
                {"x": np.ones((1, 4), "float32")},
                "b",
                (
                    "f: no signature of 3 fits this call\n"
                    "  x: expected an array, found a dict with keys 'x'\n"
                    "Pass what was compiled (library.signatures('f') shows the trees), or add this "
                    "call to the manifest and build again."
                ),
            ),
        ],
        ids=["dtype", "static", "pad", "split", "shape", "combination", "tree"],
    )
    def test_a_cause_and_its_remedy(self, chosen: Any, x: Any, mode: str, text: str) -> None:
        with pytest.raises(SignatureMismatch) as caught:
            chosen(x, mode)
        assert str(caught.value) == f"{text} {FALLBACK}"

    def test_weights_of_another_dtype_are_one_line(self, library: Any) -> None:
        half = jax.tree.map(lambda leaf: leaf.astype("float16"), PARAMS)
        with pytest.raises(SignatureMismatch) as caught:
            library.apply(half, np.ones((8, 8), "float32"), 1.0)
        assert caught.value.trace == (
            "params['b'][0]: expected f32[4], found f16[4], likewise 1 more array of params",
        )
        words = "Convert them, as params['b'][0].astype('float32'). Or add the dtype"
        assert caught.value.remedy.startswith(words)


class TestFollowed:
    """A call that does what its error says works, or has another problem."""

    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    @pytest.mark.parametrize(
        ("compiled", "passed", "remedy"),
        [
            (2.0, 2, "Convert it: float(x)."),
            (2.0, True, "Convert it: float(x)."),
            (2, True, "Convert it: int(x)."),
            (2, 2.5, "Convert it: int(x)."),
            (2.0, np.int32(2), "Convert it: float(x)."),
            (1j, 2.0, "Convert it: complex(x)."),
        ],
    )
    def test_a_number(
        self, tmp_path: Path, arrays: Any, compiled: Any, passed: Any, remedy: str
    ) -> None:
        package = write(tmp_path, [build("f", lambda x: x + x, {"x": compiled})])
        f = aotbuild.load(package, arrays=arrays).f
        with pytest.raises(SignatureMismatch) as raised:
            f(passed)
        assert f"\n{remedy} Or add the dtype" in str(raised.value)
        convert = {"f": float, "i": int, "c": complex}[remedy.split(": ")[1][0]]
        assert np.asarray(f(convert(passed))) == 2 * convert(passed)

    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    @pytest.mark.parametrize("value", [2.0, np.ones(3)])
    def test_x64(self, tmp_path: Path, arrays: Any, value: Any) -> None:
        with jax.enable_x64(True):
            package = write(tmp_path, [build("f", lambda x: x + x, {"x": value})])
        f = aotbuild.load(package, arrays=arrays).f
        with pytest.raises(SignatureMismatch) as raised:
            f(value)
        remedy = "Turn jax_enable_x64 on, or build for this dtype, too."
        assert str(raised.value).replace(f" {FALLBACK}", "").endswith(f"\n{remedy}")
        with pytest.raises(SignatureMismatch, match=r"Convert it|Turn jax_enable_x64 on"):
            f(np.float32(2) if isinstance(value, float) else value.astype("float32"))

    @pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
    def test_typed_keys(self, tmp_path: Path, impl: str) -> None:
        key = jax.random.key(0, impl=impl)
        data = np.asarray(jax.random.key_data(key))
        package = write(tmp_path, [
            build("typed", lambda k: k, {"k": key}),
            build("data", lambda k: k, {"k": data}),
        ])  # fmt: skip
        library = aotbuild.load(package)
        option = "" if impl == "threefry2x32" else f", impl={impl!r}"
        text = f"\nPass jax.random.wrap_key_data(k{option}). Or add the dtype to the manifest and "
        with pytest.raises(SignatureMismatch) as raised:
            library.typed(data)
        assert text in str(raised.value)
        assert "shapes" not in str(raised.value)
        library.typed(jax.random.wrap_key_data(data, impl=impl))
        with pytest.raises(SignatureMismatch) as raised:
            library.data(key)
        assert "\nConvert it: jax.random.key_data(k), which is uint32. Or" in str(raised.value)
        library.data(jax.random.key_data(key))
        with pytest.raises(SignatureMismatch, match=r"pass jax.random.wrap_key_data"):
            aotbuild.load(package, arrays="numpy").typed(data)

    def test_the_order_of_bytes(self, tmp_path: Path) -> None:
        x = np.ones(3, np.float32)
        package = write(tmp_path, [build("f", lambda x: x, {"x": x})])
        other = x.astype(x.dtype.newbyteorder())
        for arrays in ("jax", "numpy"):
            f = aotbuild.load(package, arrays=arrays).f  # type: ignore[call-overload]
            with pytest.raises(InvalidArgument, match=r"x.astype\(x.dtype.newbyteorder\("):
                f(other)
            f(other.astype(other.dtype.newbyteorder("=")))
