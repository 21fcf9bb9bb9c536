"""Constants that are replaced in a running process: checked first, switched between calls."""

from __future__ import annotations

import os
import stat
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support.forks import forked
from support.packages import Built, build, portable, write
from support.processes import fresh
from support.signing import keys, sign_folder

import aotbuild
from aotbuild.errors import (
    AotbuildError,
    NotTransformable,
    SignatureMismatch,
    UntrustedPackage,
    WeightsMismatch,
)

BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])
W, B = np.arange(16, dtype=np.float32).reshape(4, 4), np.ones(4, np.float32)
X, OTHER = np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)
PREFIX = "demo.model.P"
[KEY] = keys(1)
NAMES = {f"{PREFIX}.w": W, f"{PREFIX}.b": B}


def affine(x: Any, **constants: Any) -> Any:
    return x @ constants[f"{PREFIX}.w"] + constants[f"{PREFIX}.b"]


def scaled(x: Any, **constants: Any) -> Any:
    return x * constants[f"{PREFIX}.b"]


@pytest.fixture(scope="module")
def built() -> list[Built]:
    call, only_b = "swap_source:f", {f"{PREFIX}.b": B}
    return [
        build("f", affine, {"x": X}, call=call, constants=NAMES),
        build("g", scaled, {"x": X}, constants=only_b),
    ]


@pytest.fixture
def folder(tmp_path: Path, built: list[Built]) -> Path:
    return write(tmp_path / "package", built)


def tree(factor: float) -> dict[str, Any]:
    return {"w": W * np.float32(factor), "b": B * np.float32(factor)}


class TestMisuse:
    def test_an_array_without_a_name(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(AotbuildError, match="an array has no name; pass a tree"):
            aotbuild.load(folder).swap_constants(W)
        with pytest.raises(AotbuildError, match="an array has no name; pass a tree"):
            aotbuild.save_constants(tmp_path / "x.safetensors", W)

    def test_a_digest_of_a_tree(self, folder: Path) -> None:
        with pytest.raises(AotbuildError, match="expected a file, found a tree"):
            aotbuild.load(folder).swap_constants(tree(2), prefix=PREFIX, sha256="0" * 64)

    @BACKENDS
    def test_a_bool_that_is_neither_0_nor_1(self, tmp_path: Path, arrays: str) -> None:
        mask = np.arange(64) % 2 == 0
        built = build("f", lambda x, **c: jnp.where(c["m"], x, -x), {"x": mask.astype("f4")},
                      constants={"m": mask})  # fmt: skip
        library = aotbuild.load(write(tmp_path, [built]), arrays=arrays)  # type: ignore[call-overload]
        file = tmp_path / "bad.safetensors"
        save_file({"m": mask}, file)
        file.write_bytes(file.read_bytes()[:-1] + b"\x02")
        for read in (library.swap_constants, aotbuild.read_safetensors):
            with pytest.raises(AotbuildError, match="m: a BOOL that is neither 0 nor 1"):
                read(file)

    def test_many_names_that_are_unknown(self, folder: Path) -> None:
        """A hint takes time for each, and ten are shown."""
        names = {f"model.layers.{number}.proj.weight": B for number in range(20_000)}
        with pytest.raises(WeightsMismatch, match="and 19992 more"):
            aotbuild.load(folder).swap_constants(names)

    @BACKENDS
    @pytest.mark.filterwarnings("error")
    def test_numbers_that_the_dtype_of_the_build_does_not_hold(
        self, folder: Path, arrays: str
    ) -> None:
        library, b = aotbuild.load(folder, arrays=arrays), B.astype(np.float64)
        given = {"w": W, "b": np.where(np.arange(4) == 2, 1e300, b)}
        with pytest.raises(WeightsMismatch, match=r"P\.b: expected f32.4., found float64.4. with"):
            library.swap_constants(given, prefix=PREFIX)
        library.swap_constants({"w": W, "b": b * np.inf}, prefix=PREFIX)
        assert np.all(np.isinf(library.g(X)))

    @BACKENDS
    def test_whole_numbers_that_the_dtype_of_the_build_does_not_hold(
        self, tmp_path: Path, arrays: str
    ) -> None:
        """They wrapped around: 2**32 became 0."""
        table = {"table": np.arange(4, dtype=np.int32)}
        made = build("h", lambda x, table: x + table, {"x": X}, constants=table)
        library = aotbuild.load(write(tmp_path, [made]), arrays=arrays)
        with pytest.raises(WeightsMismatch, match=r"found int64.4. with numbers that int32 does"):
            library.swap_constants({"table": np.array([1, 2**32, 3, 4])})
        library.swap_constants({"table": np.array([1, 2, 3, 4])})
        assert np.asarray(library.h(X))[0].tolist() == [2, 3, 4, 5]

    @BACKENDS
    def test_a_mask_is_not_lost(self, folder: Path, arrays: str) -> None:
        given = {"w": W, "b": np.ma.array(B, mask=True)}
        with pytest.raises(WeightsMismatch, match=r"P\.b: expected f32.4., found a masked array"):
            aotbuild.load(folder, arrays=arrays).swap_constants(given, prefix=PREFIX)

    def test_a_tree_with_odd_bools(self, tmp_path: Path) -> None:
        mask = np.arange(64) % 2 == 0
        built = build("f", lambda x, **c: jnp.where(c["m"], x, -x), {"x": mask.astype("f4")},
                      constants={"m": mask})  # fmt: skip
        given = {"m": np.full(64, 2, np.uint8).view(np.bool_)}
        with pytest.raises(WeightsMismatch, match=r"m: expected bool.64., found bools that are"):
            aotbuild.load(write(tmp_path, [built])).swap_constants(given)

    def test_names_that_no_terminal_prints(self, folder: Path, tmp_path: Path) -> None:
        file = tmp_path / "odd.safetensors"
        aotbuild.save_constants(file, {"\ud800": B})
        for weights in (file, {"\ud800": B}):
            with pytest.raises(WeightsMismatch) as caught:
                aotbuild.load(folder).swap_constants(weights)
            assert "\\ud800: no constant" in str(caught.value).encode("utf-8").decode("utf-8")
        file.write_bytes(file.read_bytes().replace(b"F32", b"X32"))
        for read in (aotbuild.load(folder).swap_constants, aotbuild.read_safetensors):
            with pytest.raises(AotbuildError) as damaged:
                read(file)
            assert "\\ud800: the dtype" in str(damaged.value).encode("utf-8").decode("utf-8")


class TestSave:
    """What `save_constants` writes, where, and what it refuses before it writes anything."""

    def test_a_link_stays_and_leads_to_the_new_file(self, tmp_path: Path) -> None:
        real, link = tmp_path / "epoch.safetensors", tmp_path / "latest.safetensors"
        link.symlink_to(real.name)
        for factor in (1, 2):  # first what it leads to is missing
            aotbuild.save_constants(link, {"b": factor * B})
            assert link.is_symlink()
            np.testing.assert_array_equal(load_file(real)["b"], factor * B)
        assert sorted(path.name for path in tmp_path.iterdir()) == [real.name, link.name]

    def test_permissions_stay(self, tmp_path: Path) -> None:
        file = tmp_path / "secret.safetensors"
        before = os.umask(0o027)
        try:
            aotbuild.save_constants(file, {"b": B})
            assert stat.S_IMODE(file.stat().st_mode) == 0o640
            for mode in (0o600, 0o666):
                file.chmod(mode)
                aotbuild.save_constants(file, {"b": B})
                assert stat.S_IMODE(file.stat().st_mode) == mode
        finally:
            os.umask(before)

    def test_what_is_no_file_stays(self, tmp_path: Path) -> None:
        pipe, folder, loop = tmp_path / "pipe", tmp_path / "folder", tmp_path / "loop"
        os.mkfifo(pipe)
        folder.mkdir()
        loop.symlink_to(loop)
        for place in (pipe, folder, loop):
            with pytest.raises(AotbuildError, match=f"{place.name}: cannot be written"):
                aotbuild.save_constants(place, {"b": B})
        assert [pipe.is_fifo(), folder.is_dir(), loop.is_symlink()] == [True] * 3
        assert len([*tmp_path.iterdir()]) == 3

    @pytest.mark.parametrize(
        ("tree", "problem"),
        [
            ({"__metadata__": B}, "__metadata__: safetensors keeps this name for itself"),
            ({"b": np.ma.array(B, mask=True)}, "b: a masked array, whose mask would be lost"),
            (
                {"rng": jax.random.key(0)},
                "rng: .*: JAX array with PRNGKey dtype cannot",
            ),
            ({"m": np.full(2, 2, np.uint8).view(np.bool_)}, "m: bools that are neither 0 nor 1"),
        ],
    )
    def test_what_a_file_cannot_say(
        self, tmp_path: Path, tree: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(AotbuildError, match=f"save_constants: {problem}"):
            aotbuild.save_constants(tmp_path / "new.safetensors", tree)
        assert not [*tmp_path.iterdir()]


class TestRoundTrip:
    def test_names_avals_and_functions(self, folder: Path) -> None:
        library = aotbuild.load(folder)
        assert list(map(str, library.constants())) == [
            "demo.model.P.b: f32[4]",
            "demo.model.P.w: f32[4,4]",
        ]
        assert [info.functions for info in library.constants()] == [("f", "g"), ("f",)]
        assert [info.name for info in library.constants("g")] == ["demo.model.P.b"]
        assert [info.aval.shape for info in library.constants()] == [(4,), (4, 4)]

    @BACKENDS
    def test_a_file_that_save_constants_wrote(
        self, folder: Path, tmp_path: Path, arrays: str
    ) -> None:
        library = aotbuild.load(folder, arrays=arrays)
        np.testing.assert_allclose(library.f(X), X @ W + B)
        path = tmp_path / "new.safetensors"
        aotbuild.save_constants(path, tree(2), prefix=PREFIX)
        assert library.swap_constants(path) == 2
        for _ in range(3):
            np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))
            np.testing.assert_allclose(library.g(X), 2 * X * B)
        library.swap_constants(None)
        np.testing.assert_allclose(library.f(X), X @ W + B)
        assert library.stats()["swaps"] == 2

    @BACKENDS
    @pytest.mark.parametrize("closed", ["library", "view"])
    def test_they_stay_when_a_library_is_closed(
        self, folder: Path, arrays: str, closed: str
    ) -> None:
        """A kernel in use must not serve one size with the new weights, another with the old."""
        library = aotbuild.load(folder, arrays=arrays)
        library.swap_constants(tree(2), prefix=PREFIX)
        kernel = library.g
        np.testing.assert_allclose(kernel(X), 2 * X * B)
        where = "cpu:0" if arrays == "numpy" else jax.devices()[0]
        (library if closed == "library" else library.on(where)).close()
        for _ in range(2):
            np.testing.assert_allclose(kernel(X), 2 * X * B)
            np.testing.assert_allclose(library.g(X), 2 * X * B)
            np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))
        library.swap_constants(None)
        library.close()
        np.testing.assert_allclose(library.f(X), X @ W + B)

    @BACKENDS
    def test_a_tree_and_a_file_of_the_library_safetensors(
        self, folder: Path, tmp_path: Path, arrays: str
    ) -> None:
        library = aotbuild.load(folder, arrays=arrays)
        library.swap_constants(tree(3), prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 3 * (X @ W + B))
        save_file(tree(4), tmp_path / "new.safetensors")
        library.swap_constants(tmp_path / "new.safetensors", prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 4 * (X @ W + B))

    def test_a_folder_of_files(self, folder: Path, tmp_path: Path) -> None:
        for name, array in tree(5).items():
            (tmp_path / "parts").mkdir(exist_ok=True)
            save_file({name: array}, tmp_path / "parts" / f"{name}.safetensors")
        library = aotbuild.load(folder)
        library.swap_constants(tmp_path / "parts", prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 5 * (X @ W + B))

    def test_the_library_safetensors_reads_what_is_saved(self, tmp_path: Path) -> None:
        arrays = {
            "a": np.arange(3, dtype=np.int8),
            "b": {"c": jnp.ones((2, 2), jnp.bfloat16)},
            "d": [np.float32(2), np.zeros((0, 3))],
        }
        aotbuild.save_constants(tmp_path / "s.safetensors", arrays)
        found = load_file(tmp_path / "s.safetensors")
        assert sorted(found) == ["a", "b.c", "d.0", "d.1"]
        assert str(found["b.c"].dtype) == "bfloat16"
        np.testing.assert_array_equal(found["a"], arrays["a"])
        assert [path.name for path in tmp_path.iterdir()] == ["s.safetensors"]

    @pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float8_e4m3fn, np.int8, np.complex64])
    def test_dtypes(self, tmp_path: Path, dtype: Any) -> None:
        old, new = (jnp.asarray([[value] * 4] * 4, dtype) for value in (1, 2))
        built = build(
            "f", lambda x, **c: c["p"].astype("float32") + x, {"x": W}, constants={"p": old}
        )
        library = aotbuild.load(write(tmp_path, [built]))
        path = tmp_path / "new.safetensors"
        aotbuild.save_constants(path, {"p": new})
        library.swap_constants(path)
        np.testing.assert_array_equal(library.f(W), W + 2)
        library.swap_constants({"p": old})
        np.testing.assert_array_equal(library.f(W), W + 1)

    def test_float64_becomes_float32_as_for_arguments(self, folder: Path) -> None:
        library = aotbuild.load(folder)
        wide = {name: array.astype(np.float64) for name, array in tree(2).items()}
        library.swap_constants(wide, prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))

    @BACKENDS
    def test_arrays_that_are_written_to_later(self, folder: Path, arrays: str) -> None:
        library, given = aotbuild.load(folder, arrays=arrays), tree(2)
        library.swap_constants(given, prefix=PREFIX)
        given["w"][:] = 0
        np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))


class TestRefused:
    @BACKENDS
    def test_all_problems_at_once_and_nothing_is_switched(self, folder: Path, arrays: str) -> None:
        library = aotbuild.load(folder, arrays=arrays)
        library.f(X)
        wrong = {"w": W[:2], "bb": B}
        with pytest.raises(WeightsMismatch) as caught:
            library.swap_constants(wrong, prefix=PREFIX)
        assert str(caught.value) == (
            "demo: a tree of arrays does not fit its constants\n"
            "  demo.model.P.bb: no constant of this package (did you mean demo.model.P.b?)\n"
            "  demo.model.P.b: missing; expected f32[4]\n"
            "  demo.model.P.w: expected f32[4,4], found float32[2, 4]\n"
            "Give every array of lib.constants() by its name; save_constants(path, tree, prefix=…) "
            "writes such a file. Arrays of at most 32 B and single numbers are compiled in."
        )
        np.testing.assert_allclose(library.f(X), X @ W + B)
        assert library.stats()["swaps"] == 0

    @pytest.mark.parametrize("value", [W.astype(np.int32), "text", None, W.astype(np.float16)])
    def test_another_dtype_or_no_array(self, folder: Path, value: Any) -> None:
        with pytest.raises(WeightsMismatch, match=r"demo\.model\.P\.w"):
            aotbuild.load(folder).swap_constants({"w": value, "b": B}, prefix=PREFIX)

    @pytest.mark.parametrize("damage", [b"", b"\xff" * 8, b"no safetensors", None])
    def test_a_damaged_file(self, folder: Path, tmp_path: Path, damage: bytes | None) -> None:
        path = tmp_path / "new.safetensors"
        aotbuild.save_constants(path, tree(2), prefix=PREFIX)
        path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
        with pytest.raises(AotbuildError, match=r"new\.safetensors\n  expected a safetensors file"):
            aotbuild.load(folder).swap_constants(path)

    def test_no_file(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(AotbuildError, match="found    no such file"):
            aotbuild.load(folder).swap_constants(tmp_path / "gone.safetensors")
        with pytest.raises(AotbuildError, match=r"expected files \*.safetensors"):
            aotbuild.load(folder).swap_constants(tmp_path)

    def test_a_package_without_constants(self, tmp_path: Path) -> None:
        library = aotbuild.load(write(tmp_path, [build("f", lambda x: x + 1, {"x": X})]))
        assert library.constants() == ()
        with pytest.raises(AotbuildError, match="Build it with constants: hoist"):
            library.swap_constants({})

    def test_two_arrays_of_one_name(self, tmp_path: Path) -> None:
        with pytest.raises(AotbuildError, match=r"two arrays have the name .a\.b."):
            aotbuild.save_constants(tmp_path / "s.safetensors", {"a.b": W, "a": {"b": W}})
        assert list(tmp_path.iterdir()) == []

    def test_a_prefix_that_is_no_text(self, folder: Path) -> None:
        with pytest.raises(AotbuildError, match="prefix: expected text, found 3"):
            aotbuild.load(folder).swap_constants({"W": W}, prefix=3)  # type: ignore[arg-type]

    @pytest.mark.parametrize("tree", [None, {}, []])
    def test_no_arrays(self, tmp_path: Path, tree: Any) -> None:
        with pytest.raises(AotbuildError, match="expected a tree of arrays"):
            aotbuild.save_constants(tmp_path / "s.safetensors", tree)
        assert list(tmp_path.iterdir()) == []

    def test_a_file_that_cannot_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(AotbuildError, match=r"s\.safetensors: cannot be written: no such file"):
            aotbuild.save_constants(tmp_path / "absent" / "s.safetensors", {"a": W})

    def test_a_dtype_that_safetensors_lacks(self, tmp_path: Path) -> None:
        with pytest.raises(AotbuildError, match="safetensors has no dtype"):
            aotbuild.save_constants(tmp_path / "s.safetensors", {"a": np.ones(2, np.complex128)})


class TestOldWeightsAreNeverUsed:
    """The source and the portable form have the constants of the build."""

    def test_no_fallback(
        self, tmp_path: Path, built: list[Built], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "swap_source.py").write_text("def f(x):\n    return x\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        forms = [*built, portable(built[0], lambda x: x)]
        library = aotbuild.load(write(tmp_path, forms, fallback="jit"))
        library.f(OTHER)
        library.swap_constants(tree(2), prefix=PREFIX)
        for policy in ("jit", "portable"):
            monkeypatch.setenv("AOTBUILD_FALLBACK", policy)
            with pytest.raises(SignatureMismatch, match=f"fallback {policy}: its constants were"):
                library.f(OTHER)
        library.swap_constants(None)
        monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
        library.f(OTHER)

    def test_no_transformation(
        self, tmp_path: Path, built: list[Built], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "swap_source.py").write_text("def f(x):\n    return x\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        library = aotbuild.load(write(tmp_path, built))
        jax.vmap(library.f)(X)
        library.swap_constants(tree(2), prefix=PREFIX)
        with pytest.raises(NotTransformable, match="its constants were replaced"):
            jax.vmap(library.f)(X)


class TestTrust:
    def test_a_file_needs_a_digest_where_the_package_is_pinned(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "new.safetensors"
        aotbuild.save_constants(path, tree(2), prefix=PREFIX)
        info = aotbuild.load(folder).info()
        monkeypatch.setenv("AOTBUILD_EXPECT", f"{info['package']}@{info['digest']}")
        library = aotbuild.load(folder)
        with pytest.raises(UntrustedPackage, match="as AOTBUILD_EXPECT demands"):
            library.swap_constants(path)
        library.swap_constants(path, sha256=sha256(path.read_bytes()).hexdigest())

    def test_a_file_needs_a_digest(self, folder: Path, tmp_path: Path) -> None:
        path = tmp_path / "new.safetensors"
        aotbuild.save_constants(path, tree(2), prefix=PREFIX)
        sign_folder(folder, KEY)
        library = aotbuild.load(folder, trust=[KEY.public_pem])
        with pytest.raises(UntrustedPackage, match="as trust= demands"):
            library.swap_constants(path)
        with pytest.raises(AotbuildError, match="expected the SHA-256 " + "0" * 64):
            library.swap_constants(path, sha256="0" * 64)
        np.testing.assert_allclose(library.f(X), X @ W + B)
        library.swap_constants(path, sha256=sha256(path.read_bytes()).hexdigest())
        np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))
        # What the caller has in memory is the caller's own, as arguments are.
        library.swap_constants(tree(3), prefix=PREFIX)
        np.testing.assert_allclose(library.f(X), 3 * (X @ W + B))


@BACKENDS
def test_threads_never_see_a_mixture_and_soon_the_new(folder: Path, arrays: str) -> None:
    """w and b are of one swap: each result is that of one factor."""
    library = aotbuild.load(folder, arrays=arrays)
    base, seen, stop = X @ W + B, [], threading.Event()

    def call() -> None:
        while not stop.is_set():
            result = np.asarray(library.f(X)) / base
            seen.append((result.min(), result.max()))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for factor in range(2, 40):
        library.swap_constants(tree(factor), prefix=PREFIX)
        np.testing.assert_allclose(np.asarray(library.f(X)), factor * base)
    stop.set()
    for thread in threads:
        thread.join()
    assert all(low == pytest.approx(high) for low, high in seen)
    np.testing.assert_allclose(np.asarray(library.f(X)), 39 * base)


@BACKENDS
def test_a_swap_in_the_middle_of_a_first_call(folder: Path, arrays: str) -> None:
    """The call in flight may have the old ones, but neither cache keeps them."""
    library, swapped = aotbuild.load(folder, arrays=arrays), []

    def swap(event: Any) -> None:
        if event.kind == "loaded":
            swapped.append(library.swap_constants(tree(2), prefix=PREFIX))

    unsubscribe = aotbuild.subscribe(swap)
    first = np.asarray(library.f(X)) / (X @ W + B)
    unsubscribe()
    assert swapped == [2]
    assert first.min() == first.max()
    for _ in range(3):
        np.testing.assert_allclose(library.f(X), 2 * (X @ W + B))


def test_events_and_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []
    library = aotbuild.load(folder)
    unsubscribe = aotbuild.subscribe(told.append)
    with caplog.at_level("INFO", "aotbuild"):
        library.swap_constants(tree(2), prefix=PREFIX)
    unsubscribe()
    [event] = told
    assert (event.kind, event.source) == ("swapped", "a tree of arrays")
    assert (event.constants, event.bytes) == (2, W.nbytes + B.nbytes)
    assert "constants replaced by a tree of arrays: 2, 80 bytes" in caplog.text


ON_DEVICES = """
import json, sys
import jax, numpy as np
import aotbuild
library = aotbuild.load(sys.argv[1])
x = np.ones((2, 4), np.float32)
views = [library.on(device) for device in jax.devices()]
before = [float(view.f(x)[0, 0]) for view in views]
weights = {"w": np.ones((4, 4), np.float32), "b": np.zeros(4, np.float32)}
library.swap_constants(weights, prefix="demo.model.P")
print(json.dumps([before, [float(view.f(x)[0, 0]) for view in views],
                  [str(view.f(x).devices()) for view in views]]))
"""


@pytest.mark.process
def test_all_devices_have_the_new_ones(folder: Path) -> None:
    before, after, devices = forked(ON_DEVICES, str(folder), devices=2)
    assert before == [25.0, 25.0]
    assert after == [4.0, 4.0]
    assert len(set(devices)) == 2


MEMORY = """
import gc, json, sys
import numpy as np
import aotbuild
def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
library = aotbuild.load(sys.argv[1], arrays=sys.argv[2])
x = np.ones((1, 4096), np.float32)
library.preload(prime=True)
library.f(x)
sizes = []
for number in range(6):
    library.swap_constants({"w": np.full((4096, 2048), number, np.float32)})
    assert float(np.asarray(library.f(x))[0, 0]) == 4096.0 * number
    sizes.append(resident())
print(json.dumps(sizes))
"""


@pytest.mark.process
@BACKENDS
def test_the_old_ones_are_freed(tmp_path: Path, arrays: str) -> None:
    """32 MiB each: six of them would be 192 MiB."""
    constants = {"w": np.ones((4096, 2048), np.float32)}
    x = np.ones((1, 4096), np.float32)
    built = build("f", lambda x, **c: x @ c["w"], {"x": x}, constants=constants)
    sizes = fresh(MEMORY, str(write(tmp_path, [built])), arrays)
    assert max(sizes[1:]) - sizes[0] < 20
