"""Constants that cannot take the place of others: all problems at once, and nothing is switched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from support.packages import build, write
from support.swapping import BACKENDS, PREFIX, B, W, X, tree, two_functions

import aotbuild
from aotbuild.errors import (
    AotbuildError,
    WeightsMismatch,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "package", two_functions())


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
        library = aotbuild.load(write(tmp_path, [built]), arrays=arrays)
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

    def test_a_prefix_that_is_no_text(self, folder: Path) -> None:
        with pytest.raises(AotbuildError, match="prefix: expected text, found 3"):
            aotbuild.load(folder).swap_constants({"W": W}, prefix=3)  # type: ignore[arg-type]
