"""Hoisted constants: mapped or aligned, taken without a copy, read once, and never written to."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding
from safetensors.numpy import save
from support.packages import Built, build, write

import aotbuild
from aotbuild.errors import DamagedBlob
from aotbuild.format.aval import Aval
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.record import Blob, Constant
from aotbuild.runtime import checked_blobs
from aotbuild.runtime.checked_blobs import DirectorySource, Mapper, Source
from aotbuild.runtime.constants import Constants, read_constant
from aotbuild.runtime.jax.backend import JaxExecutableLoader
from aotbuild.runtime.library import Library
from aotbuild.runtime.wheel_source import WheelSource
from aotbuild.worker.blobs import serialize

LARGE = np.arange(1 << 15, dtype=np.float32)  # 128 KiB
X = np.ones(4, np.float32)


def constant_of(array: Any, data: bytes | None = None) -> tuple[Constant, bytes]:
    data = serialize({"constant": array}) if data is None else data
    blob = Blob("safetensors", sha256_hex(data), len(data))
    return Constant(Aval(array.shape, str(array.dtype)), blob), data


def in_folder(folder: Path, constant: Constant, data: bytes) -> DirectorySource:
    path = folder / constant.blob.path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o644)
    return DirectorySource(folder)


def in_wheel(folder: Path, constant: Constant, data: bytes) -> WheelSource:
    path = folder / "demo-1.0-py3-none-any.whl"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("demo/_aot/index", b"")
        archive.writestr(f"demo/_aot/{constant.blob.path}", data)
    return WheelSource(path)


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def is_mapped(array: Any, blob: Blob) -> bool:
    """Return whether an array lies in a mapping of the file of a blob."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(number, 16) for number in line.split()[0].split("-"))
        if begin <= address(array) < end:
            return line.endswith(blob.path)
    return False


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")


class CountingSource:
    """A source that remembers what it was asked for."""

    def __init__(self, source: Source) -> None:
        self._source, self.path = source, source.path
        self.asked: list[str] = []

    def read(self, name: str, limit: int = -1) -> bytes:
        self.asked.append(name)
        return self._source.read(name, limit)

    def view(self, name: str, size: int, mapper: Mapper) -> memoryview:
        self.asked.append(name)
        return self._source.view(name, size, mapper)

    def close(self) -> None:
        self._source.close()


class TestReading:
    @pytest.mark.parametrize("make", [in_folder, in_wheel])
    @pytest.mark.parametrize(
        "array",
        [
            LARGE,
            X,
            np.float32(3),
            np.zeros((0, 3), np.int8),
            np.arange(6).reshape(2, 3).astype(jnp.bfloat16.dtype),
            np.arange(4).astype(jnp.int4.dtype),
            np.arange(3) * 1j,
            np.array([True, False]),
        ],
    )
    def test_dtypes_and_shapes(self, tmp_path: Path, make: Callable[..., Any], array: Any) -> None:
        constant, data = constant_of(np.asarray(array))
        source = make(tmp_path, constant, data)
        found = read_constant(source, Mapper(), constant, array.shape, array.dtype)
        np.testing.assert_array_equal(found, array)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert address(found) % 64 == 0
        assert not found.flags.writeable

    @pytest.mark.parametrize("make", [in_folder, in_wheel])
    def test_a_blob_that_another_library_wrote(
        self, tmp_path: Path, make: Callable[..., Any]
    ) -> None:
        data = save({"constant": LARGE}, {"made": "by someone else, not aligned"})
        constant, _ = constant_of(LARGE, data)
        source = make(tmp_path, constant, data)
        found = read_constant(source, Mapper(), constant, LARGE.shape, LARGE.dtype)
        np.testing.assert_array_equal(found, LARGE)
        assert address(found) % 64 == 0

    @pytest.mark.parametrize("size", [10, 1 << 20])
    @pytest.mark.parametrize("change", ["flip", "cut", "grow", "gone"])
    def test_damage_is_found_before_use(self, tmp_path: Path, size: int, change: str) -> None:
        array = np.zeros(size, np.uint8)
        constant, data = constant_of(array)
        source = in_folder(tmp_path, constant, data)
        path = tmp_path / constant.blob.path
        changed = {"flip": data[:-1] + b"\1", "cut": data[:-1], "grow": data + b"\0"}
        path.write_bytes(changed.get(change, b""))
        if change == "gone":
            path.unlink()
        with pytest.raises(DamagedBlob):
            read_constant(source, Mapper(), constant, array.shape, array.dtype)

    @pytest.mark.parametrize("data", [b"", b"\xff" * 200, serialize({"other": X})])
    def test_a_blob_that_is_no_such_tensor(self, tmp_path: Path, data: bytes) -> None:
        constant, _ = constant_of(X, data)
        source = in_folder(tmp_path, constant, data)
        with pytest.raises(DamagedBlob, match="expected one tensor 'constant' of f32"):
            read_constant(source, Mapper(), constant, X.shape, X.dtype)


@on_linux
class TestMapping:
    def read(self, tmp_path: Path, *, maps: bool = True, mode: int = 0o644) -> tuple[Any, Constant]:
        constant, data = constant_of(LARGE)
        source = in_folder(tmp_path, constant, data)
        (tmp_path / constant.blob.path).chmod(mode)
        mapper = Mapper(maps=maps)
        return read_constant(source, mapper, constant, LARGE.shape, LARGE.dtype), constant

    def test_a_file_is_mapped(self, tmp_path: Path) -> None:
        found, constant = self.read(tmp_path)
        assert is_mapped(found, constant.blob)

    def test_not_if_anybody_may_write_it(self, tmp_path: Path) -> None:
        found, constant = self.read(tmp_path, mode=0o666)
        assert not is_mapped(found, constant.blob)

    def test_a_replaced_file_changes_nothing(self, tmp_path: Path) -> None:
        """That is how installers and this build write: a new file takes the name of the old one."""
        found, constant = self.read(tmp_path)
        path = tmp_path / constant.blob.path
        (tmp_path / "new").write_bytes(b"\0" * path.stat().st_size)
        (tmp_path / "new").replace(path)
        np.testing.assert_array_equal(found, LARGE)

    def test_few_descriptors_stay_open(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checked_blobs, "_MOST_DESCRIPTORS", 3)
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        pairs = [constant_of(LARGE + number) for number in range(6)]
        for constant, data in pairs:
            source = in_folder(tmp_path, constant, data)
        mapper = Mapper()
        kept = [read_constant(source, mapper, item, LARGE.shape, LARGE.dtype) for item, _ in pairs]
        assert len(os.listdir("/proc/self/fd")) - before <= 3  # noqa: PTH208
        assert all(np.array_equal(array, LARGE + number) for number, array in enumerate(kept))


def put_by(source: Source, constants: list[Constant]) -> tuple[Any, list[Any]]:
    """Return constants as jax arrays, and the numpy arrays that were given for them."""
    loader, given = JaxExecutableLoader(), []

    def put(array: Any, aval: Aval, place: Any) -> Any:
        given.append(array)
        return loader.put(array, aval, place)

    made = Constants(source, loader.physical, put)
    with made.read_ahead(constants):
        placed = made.put(constants, [SingleDeviceSharding(jax.devices()[0])] * len(constants))
    return placed, given


class TestPutting:
    @pytest.mark.parametrize("make", [in_folder, in_wheel])
    @pytest.mark.parametrize("array", [LARGE, X, np.arange(64).astype(jnp.bfloat16.dtype)])
    def test_xla_takes_it_without_a_copy(
        self, tmp_path: Path, make: Callable[..., Any], array: Any
    ) -> None:
        constant, data = constant_of(array)
        (placed,), (given,) = put_by(make(tmp_path, constant, data), [constant])
        assert placed.unsafe_buffer_pointer() == address(given)
        np.testing.assert_array_equal(placed, array)

    @pytest.mark.parametrize("make", [in_folder, in_wheel])
    def test_it_lives_as_long_as_the_array(self, tmp_path: Path, make: Callable[..., Any]) -> None:
        constant, data = constant_of(LARGE)
        source = make(tmp_path, constant, data)
        (placed,), given = put_by(source, [constant])
        given.clear()
        source.close()
        (tmp_path / constant.blob.path).unlink(missing_ok=True)
        np.testing.assert_array_equal(placed, LARGE)

    def test_each_is_read_once(self, tmp_path: Path) -> None:
        arrays = [np.full(1 << 16, value, np.float32) for value in range(4)]
        pairs = [constant_of(array) for array in arrays]
        for constant, data in pairs:
            source = CountingSource(in_folder(tmp_path, constant, data))
        constants = [constant for constant, _ in pairs]
        placed, _ = put_by(source, [*constants, *constants])
        assert sorted(source.asked) == sorted(constant.blob.path for constant in constants)
        for array, found in zip(arrays * 2, placed, strict=True):
            np.testing.assert_array_equal(found, array)

    def test_damage_raises_in_the_caller(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stray: list[Any] = []
        monkeypatch.setattr(threading, "excepthook", stray.append)
        constant, data = constant_of(np.zeros(1 << 18, np.float32))
        source = in_folder(tmp_path, constant, data[:-1])
        with pytest.raises(DamagedBlob, match="1048703 bytes"):
            put_by(source, [constant])
        assert stray == []


def package(tmp_path: Path, *built: Built) -> Path:
    folder = write(tmp_path, built)
    for path in (folder / "blobs").iterdir():
        path.chmod(0o644)
    return folder


class TestCalls:
    def test_a_result_never_is_the_constant(self, tmp_path: Path) -> None:
        """Its buffer may be a file: who is given a result may donate it."""
        built = build("f", lambda x, c: (c, x + c), {"x": LARGE}, constants={"c": LARGE})
        library = aotbuild.load(package(tmp_path, built))
        double = jax.jit(lambda x: x * 2, donate_argnums=0)
        for _ in range(3):
            same, _ = library.f(LARGE)
            np.testing.assert_array_equal(double(same), LARGE * 2)
        np.testing.assert_array_equal(library.f(LARGE)[0], LARGE)

    def test_donated_arguments_beside_it(self, tmp_path: Path) -> None:
        fn = lambda x, c: x + c  # noqa: E731
        built = build("f", fn, {"x": LARGE}, constants={"c": LARGE}, donate=["x"])
        library = aotbuild.load(package(tmp_path, built))
        for count in range(1, 4):
            x = jnp.asarray(LARGE * count)
            np.testing.assert_array_equal(library.f(x), LARGE * (count + 1))
            assert x.is_deleted()

    def test_what_is_not_called_is_not_opened(self, tmp_path: Path) -> None:
        built = [
            build(name, lambda x, c: x + c.sum(), {"x": X}, constants={"c": LARGE + number})
            for number, name in enumerate("fgh")
        ]
        source = CountingSource(DirectorySource(package(tmp_path, *built)))
        library = Library(source)
        library.g(X)
        library.explain("h", X)
        mine = built[1].record
        blobs = {mine.blob.path, mine.calling.constants[0].blob.path}
        assert {name for name in source.asked if name.startswith("blobs/")} == blobs
