"""Tensors in blobs: safetensors that any library reads, aligned, and hostile headers refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from aotbuild.format.tensors import DTYPES, Tensor, read_tensors, write_tensors


def written(**arrays: Any) -> bytes:
    return write_tensors(
        {n: (f"{a.dtype.kind}{a.dtype.itemsize}", a.shape, a.tobytes()) for n, a in arrays.items()}
    )


def blob(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: Any = "U8", shape: Any = (4,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


class TestWriting:
    def test_exact_bytes(self) -> None:
        data = written(constant=np.arange(2, dtype="<i4"))
        header = b'{"constant":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}'
        assert data == (120).to_bytes(8, "little") + header.ljust(120) + bytes(
            [0, 0, 0, 0, 1, 0, 0, 0]
        )

    @pytest.mark.parametrize("name", DTYPES)
    def test_the_library_reads_every_dtype(self, name: str) -> None:
        array = np.arange(6).astype(DTYPES[name]).reshape(2, 3)
        found = load(written(constant=array))["constant"]
        np.testing.assert_array_equal(found, array)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)

    @pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
    def test_shapes_without_much_in_them(self, shape: tuple[int, ...]) -> None:
        data = written(constant=np.ones(shape, "f4"))
        assert load(data)["constant"].shape == shape
        assert read_tensors(data)["constant"].shape == shape

    def test_equal_ones_give_equal_bytes(self) -> None:
        one, two = np.ones(3, "f4"), np.zeros(5, "i8")
        assert written(a=one, b=two) == written(b=two, a=one)


class TestReading:
    def test_what_the_library_writes(self) -> None:
        arrays = {"a": np.arange(5, dtype="u1"), "b": np.arange(3, dtype="f8")}
        data = save(arrays, {"made": "elsewhere"})
        for name, tensor in read_tensors(data).items():
            assert data[tensor.begin : tensor.end] == arrays[name].tobytes()

    def test_a_view(self) -> None:
        data = written(constant=np.zeros(2, "f4"))
        assert read_tensors(memoryview(data)) == {"constant": Tensor("f4", (2,), 128, 136)}

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\0" * 7,
            (9).to_bytes(8, "little") + b"{}",
            (1 << 63).to_bytes(8, "little") + b"{}",
            blob(b""),
            blob(b' {"constant":1}'),
            blob(b"{"),
            blob(b"\xff"),
            blob(b'{"a":' * 100_000),
            blob(b'{"a":NaN}'),
            blob({"a": 1}),
            blob({"a": {**entry(), "more": 1}}, b"1234"),
            blob(b'{"a":%b,"a":%b}' % ((json.dumps(entry()).encode(),) * 2), b"1234"),
            blob({"a": entry("U7")}, b"1234"),
            blob({"a": entry(shape=4)}, b"1234"),
            blob({"a": entry(shape=[4.0])}, b"1234"),
            blob({"a": entry(shape=[True, 4])}, b"1234"),
            blob({"a": entry(shape=[-2, -2])}, b"1234"),
            blob({"a": entry(shape=[1] * 65 + [4])}, b"1234"),
            blob({"a": entry(shape=[1 << 62, 1 << 62, 0], offsets=[0, 4])}, b"1234"),
            blob({"a": entry(shape=[5])}, b"1234"),
            blob({"a": entry(offsets=[4, 0])}, b"1234"),
            blob({"a": entry(offsets=[-4, 0])}, b"1234"),
            blob({"a": entry(offsets=[1, 5])}, b"12345"),
            blob({"a": entry()}, b"123"),
            blob({"a": entry()}, b"12345"),
            blob({"a": entry(), "b": entry()}, b"1234"),
            blob({"a": entry(), "b": entry(offsets=[8, 12])}, b"123456789012"),
            blob({"a": entry(), "b": entry(offsets=[2, 6])}, b"123456"),
        ],
    )
    def test_hostile_headers_are_refused(self, data: bytes) -> None:
        with pytest.raises(ValueError, match=r"."):
            read_tensors(data)
