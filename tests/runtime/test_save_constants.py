"""`save_constants`: what it writes, where, and what it refuses before it writes anything."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file
from support.swapping import B, W

import aotbuild
from aotbuild.errors import (
    AotbuildError,
)


class TestSave:
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

    def test_two_arrays_of_one_name(self, tmp_path: Path) -> None:
        with pytest.raises(AotbuildError, match=r"two arrays have the name .a\.b."):
            aotbuild.save_constants(tmp_path / "s.safetensors", {"a.b": W, "a": {"b": W}})
        assert list(tmp_path.iterdir()) == []

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
