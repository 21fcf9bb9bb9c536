"""Odd arguments: a call computes what numpy would, or is refused, cold and warm alike."""

from __future__ import annotations

import copy
import enum
import pickle
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from support.packages import aligned, build, write

import aotbuild
from aotbuild.errors import AotbuildError, SignatureMismatch
from aotbuild.runtime.library import Library

X = np.arange(4, dtype=np.float32)
I = np.arange(4, dtype=np.int32)  # noqa: E741
BIG = np.ones((1000, 1000), np.float32)
NAN = np.array([0x7FC00001, 0xFFC12345, 0x7F800000, 0x80000000], np.uint32).view(np.float32)
ARRAYS = pytest.mark.parametrize("arrays", ["jax", "numpy"])


class Pages(np.ndarray):
    """A subclass that means nothing else than its array."""


class Level(enum.IntEnum):
    HIGH = 3


class Celsius(float):
    pass


def unaligned() -> Any:
    return np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32)


def read_only() -> Any:
    array = X.copy()
    array.flags.writeable = False
    return array


def overlapping() -> Any:
    return np.lib.stride_tricks.as_strided(np.arange(3, dtype=np.float32), (4,), (4,))[:3]


def memmap() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        mapped = np.memmap(Path(folder, "x"), np.float32, "w+", shape=(4,))
    mapped[:] = X
    return mapped


# By function: what it is called with when it gets warm; then odd arguments of it, each with what is
# computed, as a list, or the error that it is refused with.
MISMATCH, INVALID = "SignatureMismatch", "InvalidArgument"
DOUBLED = [0.0, 2.0, 4.0, 6.0]
ODD: dict[str, tuple[Any, dict[str, tuple[Callable[[], Any], Any]]]] = {
    "f32": (
        X,
        {
            "a subclass": (lambda: X.view(Pages), DOUBLED),
            "a matrix": (lambda: np.asmatrix(X), MISMATCH),
            "a recarray": (lambda: X.view(np.recarray), DOUBLED),
            "a memmap": (memmap, DOUBLED),
            "reversed": (lambda: X[::-1].copy()[::-1], DOUBLED),
            "strided": (lambda: np.repeat(X, 2)[::2], DOUBLED),
            "a column": (lambda: np.stack([X, -X], axis=1)[:, 0], DOUBLED),
            "strides of zero": (lambda: np.broadcast_to(np.float32(3), (4,)), [6.0] * 4),
            "strides of zero, another shape": (lambda: np.broadcast_to(X, (3, 4)), MISMATCH),
            "unaligned": (unaligned, DOUBLED),
            "read-only": (read_only, DOUBLED),
            "overlapping": (overlapping, MISMATCH),
            "Fortran order": (lambda: np.asfortranarray(X), DOUBLED),
            "float64": (lambda: X.astype(np.float64), DOUBLED),
            "float16": (lambda: X.astype(np.float16), MISMATCH),
            "bfloat16": (lambda: X.astype(ml_dtypes.bfloat16), MISMATCH),
            "float8": (lambda: X.astype(ml_dtypes.float8_e4m3fn), MISMATCH),
            "int4": (lambda: X.astype(ml_dtypes.int4), MISMATCH),
            "float128": (lambda: X.astype(np.longdouble), INVALID),
            "complex64": (lambda: X.astype(np.complex64), MISMATCH),
            "bool": (lambda: X.astype(bool), MISMATCH),
            "objects": (lambda: X.astype(object), INVALID),
            "datetimes": (lambda: np.zeros(4, "M8[s]"), INVALID),
            "timedeltas": (lambda: np.zeros(4, "m8[ns]"), INVALID),
            "structured": (lambda: np.zeros(4, "f4,f4"), INVALID),
            "void": (lambda: np.zeros(4, "V4"), INVALID),
            "text": (lambda: np.array(["a"] * 4), INVALID),
            "bytes of numpy": (lambda: np.array([b"abcd"] * 4), INVALID),
            "bytes": (X.tobytes, INVALID),
            "a memoryview": (lambda: memoryview(X), INVALID),
            "a bytearray": (lambda: bytearray(X.tobytes()), INVALID),
            "a string": (lambda: "0 1 2 3", INVALID),
            "a list": (X.tolist, MISMATCH),
            "a tuple": (lambda: tuple(X), MISMATCH),
            "a list of the array": (lambda: [X], MISMATCH),
            "None": (lambda: None, MISMATCH),
            "a dict": (lambda: {"x": X}, MISMATCH),
            "a set": (lambda: {1.0}, INVALID),
            "a number": (lambda: 1.0, MISMATCH),
            "no elements": (lambda: X[:0], MISMATCH),
            "another rank": (lambda: X[None], MISMATCH),
            "no axes": (lambda: X[1], MISMATCH),
            "huge, of strides of zero": (
                lambda: np.broadcast_to(np.float32(1), (1 << 40,)),
                MISMATCH,
            ),
            "32 axes": (lambda: np.zeros((1,) * 32, np.float32), MISMATCH),
            "a class": (lambda: np.ndarray, INVALID),
            "a function": (lambda: np.zeros, INVALID),
            "a generator": (lambda: (x for x in X), INVALID),
            "itself": (lambda: aotbuild, INVALID),
        },
    ),
    "weak": (
        0.5,
        {
            "an int": (lambda: 3, MISMATCH),
            "a bool": (lambda: True, MISMATCH),
            "a complex": (lambda: 1j, MISMATCH),
            "a float of its own type": (lambda: Celsius(2), 4.0),
            "a float of numpy": (lambda: np.float32(2), MISMATCH),
            "too large for float32": (lambda: 1e300, float("inf")),
            "infinity": (lambda: float("inf"), float("inf")),
            "minus zero": (lambda: -0.0, -0.0),
        },
    ),
    "int": (
        5,
        {
            "too large": (lambda: 2**40, INVALID),
            "too small": (lambda: -(2**40), INVALID),
            "far too large": (lambda: 10**400, INVALID),
            "at the limit": (lambda: 2**31 - 1, -2),
            "an enum": (lambda: Level.HIGH, 6),
            "a bool": (lambda: True, MISMATCH),
            "a float": (lambda: 1.0, MISMATCH),
            "an int of numpy": (lambda: np.int32(3), MISMATCH),
            "a bool of numpy": (lambda: np.bool_(1), MISMATCH),
            "an array without axes": (lambda: np.array(3, np.int32), MISMATCH),
        },
    ),
    "bits": (X, {"payloads of NaN": (lambda: NAN, NAN.view(np.uint32).tolist())}),
    "empty": (
        X[:0],
        {"no elements": (lambda: np.zeros(0, np.float32), []), "some": (lambda: X, MISMATCH)},
    ),
    "bf16": (
        X.astype(ml_dtypes.bfloat16),
        {"float32": (lambda: X, MISMATCH), "itself": (lambda: X.astype("bfloat16"), DOUBLED)},
    ),
}  # fmt: skip
CASES = [(name, odd) for name, (_, odds) in ODD.items() for odd in odds]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    double = lambda x: x * 2  # noqa: E731
    bits = lambda x: jax.lax.bitcast_convert_type(x, jnp.uint32)  # noqa: E731
    built = [
        build(name, bits if name == "bits" else double, {"x": usual})
        for name, (usual, _) in ODD.items()
    ]
    built.append(build("i32", double, {"x": I}))
    built.append(build("total", lambda x: (x @ x).sum(), {"x": BIG}))
    built.append(build("tree", lambda p, x: p["w"][0] * x, {"p": {"w": [X]}, "x": X}))
    built.append(build("step", lambda c, x: c + x, {"c": X, "x": X}, donate=["c"]))
    return write(tmp_path_factory.mktemp("calls"), built)


def outcome(library: Library, name: str, *values: Any) -> Any:
    """Return what a call computes, as lists, or the name of the error that refuses it."""
    try:
        return np.asarray(getattr(library, name)(*values)).tolist()
    except AotbuildError as err:
        return type(err).__name__


def warmed(folder: Path, arrays: str, name: str, *usual: Any, copy: bool = False) -> Library:
    """Return a library that knows the usual calls of a function."""
    library: Library = aotbuild.load(folder, arrays=arrays, copy=copy)
    library.preload(name, prime=True)
    for _ in range(2):
        outcome(library, name, *usual)
    return library


@ARRAYS
@pytest.mark.parametrize(("name", "odd"), CASES, ids=[f"{name}, {odd}" for name, odd in CASES])
@pytest.mark.filterwarnings(
    "ignore:overflow encountered", "ignore:the matrix", "ignore:Python iter"
)
def test_an_odd_argument(folder: Path, arrays: str, name: str, odd: str) -> None:
    usual, odds = ODD[name]
    make, expected = odds[odd]
    library = warmed(folder, arrays, name, usual)
    cold: Library = aotbuild.load(folder, arrays=arrays)
    found = [outcome(each, name, make()) for each in (cold, cold, library, library)]
    assert found == [expected] * 4
    # And what is usual goes on.
    np.testing.assert_array_equal(outcome(library, name, usual), outcome(cold, name, usual))


# --- masked arrays and byte orders ----------------------------------------------------------------

MASKED = {
    "masked": lambda: np.ma.masked_array(X, [1, 0, 0, 0]),
    "masked nowhere": lambda: np.ma.masked_array(X),
    "masked everywhere": lambda: np.ma.masked_all(4, np.float32),
    "masked, with a hard mask": lambda: np.ma.masked_array(X, [0, 1, 0, 1], hard_mask=True),
}
SWAPPED = {
    "f32": lambda: X.astype(">f4"),
    "i32": lambda: I.astype(">i4"),
    "f32 of f64": lambda: X.astype(">f8"),
    "i32 of i64": lambda: I.astype(">i8"),
}


@pytest.mark.cause(4)
@pytest.mark.parametrize("place", ["alone", "in a tree", "by keyword"])
@pytest.mark.parametrize("odd", MASKED)
def test_a_masked_array_is_refused_by_a_warm_call_with_numpy(
    folder: Path, odd: str, place: str
) -> None:
    library = warmed(folder, "numpy", "f32", X)
    library.tree({"w": [X]}, X)
    calls = {
        "alone": lambda: library.f32(MASKED[odd]()),
        "in a tree": lambda: library.tree({"w": [MASKED[odd]()]}, X),
        "by keyword": lambda: library.f32(x=MASKED[odd]()),
    }
    with pytest.raises(aotbuild.errors.InvalidArgument, match=r"it is masked; use its filled\(\)"):
        calls[place]()


@pytest.mark.cause(4)
def test_the_constant_masked_is_refused_by_a_warm_call_with_numpy(tmp_path: Path) -> None:
    one = np.float32(1)
    library = aotbuild.load(
        write(tmp_path, [build("f", lambda x: x * 2, {"x": one})]), arrays="numpy"
    )
    assert library.f(one) == 2
    with pytest.raises(aotbuild.errors.InvalidArgument, match="it is masked"):
        library.f(np.ma.masked)


@pytest.mark.cause(4)
@pytest.mark.parametrize("odd", MASKED)
def test_with_jax_a_warm_call_reads_a_masked_array_as_jit_does(folder: Path, odd: str) -> None:
    """As the pages say; `copy=True` refuses it."""
    jitted = jax.jit(lambda x: x * 2)
    jitted(X)
    expected = np.asarray(jitted(MASKED[odd]())).tolist()
    assert outcome(warmed(folder, "jax", "f32", X), "f32", MASKED[odd]()) == expected


@pytest.mark.cause(4)
@ARRAYS
@pytest.mark.parametrize("odd", [*MASKED, *SWAPPED])
def test_copy_refuses_what_a_cold_call_refuses(folder: Path, arrays: str, odd: str) -> None:
    name = odd.split()[0] if odd in SWAPPED else "f32"
    value = (MASKED | SWAPPED)[odd]()
    library = warmed(folder, arrays, name, I if name == "i32" else X, copy=True)
    cold: Library = aotbuild.load(folder, arrays=arrays)
    assert [outcome(each, name, value) for each in (cold, library, library)] == [INVALID] * 3


@pytest.mark.cause(4)
@ARRAYS
@pytest.mark.parametrize("odd", SWAPPED)
def test_a_byte_order_is_read_as_jit_reads_it(folder: Path, arrays: str, odd: str) -> None:
    """As the pages say: refused by a cold call, and read as it lies by a warm one."""
    name, value = odd.split()[0], SWAPPED[odd]()
    usual = I if name == "i32" else X
    jitted = jax.jit(lambda x: x * 2)
    jitted(usual)
    expected = np.asarray(jitted(value)).tolist()
    assert outcome(warmed(folder, arrays, name, usual), name, value) == expected
    assert outcome(aotbuild.load(folder, arrays=arrays), name, value) == INVALID


# --- arrays of jax --------------------------------------------------------------------------------


def deleted() -> Any:
    array = jnp.asarray(X) + 0
    array.delete()
    return array


JAX_ARRAYS: dict[str, tuple[Callable[[], Any], Any]] = {
    "uncommitted": (lambda: jnp.asarray(X), DOUBLED),
    "committed": (lambda: jax.device_put(X, jax.devices()[0]), DOUBLED),
    "deleted": (deleted, INVALID),
    "weakly typed": (lambda: jnp.broadcast_to(1.0, (4,)), MISMATCH),
    "a key": (lambda: jax.random.split(jax.random.key(0), 4), MISMATCH),
    "a shape": (lambda: jax.ShapeDtypeStruct((4,), np.float32), INVALID),
    "an aval": (lambda: jax.typeof(jnp.asarray(X)), INVALID),
}


@pytest.mark.parametrize("odd", JAX_ARRAYS)
def test_an_array_of_jax(folder: Path, odd: str) -> None:
    make, expected = JAX_ARRAYS[odd]
    cold: Library = aotbuild.load(folder)
    library = warmed(folder, "jax", "f32", X)
    assert [outcome(each, "f32", make()) for each in (cold, library)] == [expected] * 2


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad], ids=["jit", "vmap", "grad"])
def test_tracers_are_refused_where_there_is_no_source(folder: Path, transform: Any) -> None:
    library = warmed(folder, "jax", "f32", X)
    with pytest.raises(AotbuildError, match="called where only its source can run"):
        transform(lambda x: library.f32(x).sum())(np.stack([X] * 4))


def test_tracers_are_refused_by_numpy(folder: Path) -> None:
    library = warmed(folder, "numpy", "f32", X)
    with pytest.raises(aotbuild.errors.InvalidArgument):
        jax.jit(lambda x: library.f32(x))(X)


@ARRAYS
def test_a_donated_array_is_used_once(folder: Path, arrays: str) -> None:
    library = warmed(folder, arrays, "step", X, X)
    given = library.place(jax.device_put(X) if arrays == "jax" else X)
    if arrays == "numpy":
        given = library.step.keeping()(X, X)
    library.step(given, X)
    # XLA's own words, as with jit.
    with pytest.raises((AotbuildError, RuntimeError, ValueError), match=r"deleted|donated"):
        library.step(given, X)
    assert outcome(library, "step", X, X) == DOUBLED


@pytest.mark.parametrize("odd", ["a dict", "a deep list", "another key", "a cycle"])
@ARRAYS
def test_a_tree_of_another_kind(folder: Path, arrays: str, odd: str) -> None:
    library = warmed(folder, arrays, "tree", {"w": [X]}, X)
    deep: Any = X
    for _ in range(100):
        deep = [deep]
    trees = {"a dict": {"w": {0: X}}, "a deep list": {"w": deep}, "another key": {"v": [X]}}
    if odd == "a cycle":
        cycle: list[Any] = []
        cycle.append(cycle)
        # jaxlib's own errors, as with jit.
        with pytest.raises((AotbuildError, RecursionError, SystemError)):
            library.tree({"w": cycle}, X)
    else:
        assert outcome(library, "tree", trees[odd], X) == MISMATCH
    assert outcome(library, "tree", {"w": [X]}, X) == (X * X).tolist()


# --- arguments that are changed -------------------------------------------------------------------

MADE: dict[str, Callable[[Any], Any]] = {
    "aligned": aligned,
    "as numpy makes it": lambda array: array.copy(),
    "strided": lambda array: np.repeat(array, 2, axis=1)[:, ::2],
}


def assert_read_at_return(library: Library, array: Any) -> None:
    """Check that results do not change with an array that changes right after a call."""
    for number in range(1, 4):
        array[...] = number
        result = library.total(array)
        array[...] = 7
        assert float(result) == pytest.approx(1e9 * number * number, rel=1e-5)


@pytest.mark.cause(27)
@ARRAYS
@pytest.mark.parametrize("made", MADE)
def test_copied_arguments_may_be_changed(folder: Path, arrays: str, made: str) -> None:
    library = warmed(folder, arrays, "total", BIG, copy=True)
    array = MADE[made](BIG)
    assert_read_at_return(library, array)


@pytest.mark.cause(27)
def test_numpy_has_read_its_arguments_when_a_call_returns(folder: Path) -> None:
    library = warmed(folder, "numpy", "total", BIG)
    array = aligned(BIG)
    assert_read_at_return(library, array)


@pytest.mark.cause(27)
@ARRAYS
def test_copies_change_nothing_else(folder: Path, arrays: str) -> None:
    """Trees, keywords, kept results and calls that are counted."""
    library: Library = aotbuild.load(folder, arrays=arrays, copy=True)
    library.count_calls()
    expected = (X * X).tolist()
    assert np.asarray(library.tree({"w": [X]}, x=X)).tolist() == expected
    assert np.asarray(library.tree(x=X, p={"w": [X]})).tolist() == expected
    assert np.asarray(library.step.keeping()(X, X)).tolist() == DOUBLED
    assert library.stats()["calls"]["tree"] == {"f32[4], f32[4]": 2}
    assert outcome(library, "tree", {"w": X}, X) == MISMATCH


@ARRAYS
@pytest.mark.parametrize("odd", ["caf\udce9", ("a", "\ud800"), frozenset({"\udfff"})])
def test_a_static_text_that_is_not_utf8(tmp_path: Path, arrays: str, odd: Any) -> None:
    """As `os.fsdecode` makes of the name of a file."""
    place = write(tmp_path, [build("f", lambda x, k: x, {"x": X}, statics={"k": "a"})])
    with pytest.raises(SignatureMismatch, match="half of a character"):
        aotbuild.load(place, arrays=arrays).f(X, k=odd)


# --- what is no call ----------------------------------------------------------------------------


@ARRAYS
def test_an_argument_whose_type_has_no_module(folder: Path, arrays: str) -> None:
    odd = np.ctypeslib.as_ctypes(np.ones(4, np.float32))
    with pytest.raises(AotbuildError, match="c_float"):
        aotbuild.load(folder, arrays=arrays).total(odd)


@ARRAYS
@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_nobody_pickles_a_library(folder: Path, arrays: str, way: Any) -> None:
    library = aotbuild.load(folder, arrays=arrays)
    for each in (library, library.total):
        with pytest.raises(TypeError, match="cannot be pickled or copied; load the package"):
            way(each)


@pytest.mark.parametrize(
    ("package", "options", "says"),
    [
        ("a" * 5000, {}, "a" * 5000),
        ("/" + "a" * 5000, {}, "a" * 5000),
        (3, {}, "found    3"),
    ],
)
def test_an_odd_argument_of_load(
    folder: Path, package: Any, options: dict[str, Any], says: str
) -> None:
    place = folder if package == "proj" else package
    with pytest.raises(AotbuildError, match=re.escape(says)):
        aotbuild.load(place, **options)
