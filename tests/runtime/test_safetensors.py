"""`read_safetensors`: files of the real library and of our own, and files that are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file
from support.numpy_backend import with_numpy
from support.packages import build
from support.processes import fresh

import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.format.tensors import write_tensors

LARGE = np.arange(1 << 16, dtype=np.float32).reshape(256, 256)


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def file(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + text + data)
    return path


def tensor(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("name_length", [1, 9, 17, 25, 33, 41, 49, 57])
def test_files_of_the_library_wherever_their_tensors_begin(
    tmp_path: Path, name_length: int
) -> None:
    given = {
        "w" * name_length: LARGE,
        "b": np.arange(3, dtype=np.int8),
        "odd": np.arange(5, dtype=np.float16),
        "none": np.zeros((0, 4), np.float64),
        "scalar": np.array(2.5, np.float32),
        "yes": np.array([True, False]),
    }
    save_file(given, tmp_path / "w.safetensors", {"format": "np"})
    found = aotbuild.read_safetensors(tmp_path / "w.safetensors")
    assert found.keys() == given.keys()
    for name, array in found.items():
        assert type(array) is np.ndarray
        assert (array.dtype, array.shape) == (given[name].dtype, given[name].shape)
        assert address(array) % 64 == 0 or not array.size
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, given[name])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("BF16", "bfloat16"),
        ("F8_E4M3", "float8_e4m3fn"),
        ("F8_E5M2", "float8_e5m2"),
        ("F8_E8M0", "float8_e8m0fnu"),
        ("C64", "complex64"),
        ("BOOL", "bool"),
        ("U64", "uint64"),
    ],
)
def test_dtypes(tmp_path: Path, name: str, dtype: str) -> None:
    array = np.ones((2, 3)).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    header = {"a": tensor(name, [2, 3], 0, array.nbytes)}
    found = aotbuild.read_safetensors(file(tmp_path / "f", header, array.tobytes()))["a"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_aligned_files_are_mapped_unless_everybody_may_write_them(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(write_tensors({"w": ("f4", LARGE.shape, LARGE.tobytes())}))
    path.chmod(mode)
    array = aotbuild.read_safetensors(str(path))["w"]
    np.testing.assert_array_equal(array, LARGE)
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert (str(path) in maps.read_text()) is (mode == 0o644)


def test_calls_take_them_without_a_copy(tmp_path: Path) -> None:
    save_file({"w": LARGE, "b": LARGE[0].copy()}, tmp_path / "w.safetensors")
    params = aotbuild.read_safetensors(tmp_path / "w.safetensors")
    library = with_numpy(tmp_path, build("f", lambda p: p["w"] @ p["b"], {"p": params}))
    np.testing.assert_allclose(library.f(params), LARGE @ LARGE[0], rtol=1e-5)
    assert library.stats()["copied_bytes"] == 0
    placed = library.place(params)
    assert all(placed[name] is params[name] for name in params)


@pytest.mark.process
def test_it_imports_no_jax(tmp_path: Path) -> None:
    save_file({"w": LARGE}, tmp_path / "w.safetensors")
    code = """
import json, sys
import aotbuild
sum = float(aotbuild.read_safetensors(sys.argv[1])["w"].sum())
print(json.dumps(["jax" in sys.modules, "jaxlib" in sys.modules]))
"""
    assert fresh(code, str(tmp_path / "w.safetensors")) == [False, False]


@pytest.mark.parametrize(
    ("header", "data", "length", "found"),
    [
        (b"", b"", None, "Expecting value"),
        (b"", b"", 1 << 40, "no header: 8 bytes that say it has 1099511627776"),
        (b"[]", b"", None, "a header that is no JSON object"),
        (b"{", b"", None, "Expecting property name"),
        (b'{"a":' * 100_000, b"", None, "a header that is too deep"),
        (b"\xff\xfe", b"", None, "can't decode byte 0xff"),
        (b'{"a":1,"a":2}', b"", None, "a header with a key that is there twice"),
        ({"a": 1}, b"", None, "a: not data_offsets, dtype, shape"),
        ({"a": tensor("F4", [2], 0, 1)}, b"1", None, "a: the dtype 'F4'"),
        ({"a": tensor("F32", [2], 0, 4)}, b"1234", None, "a: 4 bytes for F32 of [2]"),
        ({"a": tensor("F32", [-1], 0, 4)}, b"1234", None, "a: shape or offsets are no sizes"),
        ({"a": tensor("F32", [1 << 62], 0, 4)}, b"1234", None, "a: 4 bytes for F32"),
        ({"a": tensor("U8", [4], 4, 8)}, b"12345678", None, "begins at"),
        ({"a": tensor("U8", [4], 0, 4)}, b"123", None, "the tensors end at"),
        ({"a": tensor("U8", [4], 0, 4)}, b"12345", None, "the tensors end at"),
        ({"a": tensor("BOOL", [2], 0, 2)}, b"\x01\x02", None, "a: a BOOL that is neither 0 nor 1"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, header: Any, data: bytes, length: int | None, found: str
) -> None:
    path = file(tmp_path / "bad.safetensors", header, data, length)
    with pytest.raises(AotbuildError) as caught:
        aotbuild.read_safetensors(path)
    lines = str(caught.value).splitlines()
    assert lines[:2] == [str(path), "  expected a complete safetensors file"]
    assert found in lines[2]


@pytest.mark.parametrize("count", [0, 3, 8, 40])
def test_files_that_are_cut(tmp_path: Path, count: int) -> None:
    save_file({"w": LARGE}, tmp_path / "whole")
    (tmp_path / "cut").write_bytes((tmp_path / "whole").read_bytes()[:count])
    with pytest.raises(AotbuildError, match=r"no header|it ends at"):
        aotbuild.read_safetensors(tmp_path / "cut")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        aotbuild.read_safetensors(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        aotbuild.read_safetensors(tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        aotbuild.read_safetensors(os.devnull)
