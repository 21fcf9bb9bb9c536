"""CUDA without jax, as far as it can be seen without a GPU: the plugin, the driver, the copies."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aotbuild.errors import AotbuildError
from aotbuild.format.aval import Aval
from aotbuild.platforms.cuda import client as cuda
from aotbuild.platforms.cuda.driver import Driver
from aotbuild.runtime.numpy import backend, private, trees


class FakeDriver:
    """A driver whose GPU memory is the host's; `log` has what was asked of it."""

    def __init__(self, error: int = 0) -> None:
        self.log: list[str] = []
        self.error = error

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.log.append(name)
            if name == "cuMemcpyDtoH_v2":
                target, source, size = arguments
                ctypes.memmove(target, source.value, size.value)
                return self.error
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"an illegal memory access"
            return 0

        return call


class FakeArray:
    """As much of jaxlib's array as is read of one on a GPU."""

    def __init__(self, data: Any) -> None:
        self.data, self.waited = data, False

    def block_until_ready(self) -> None:
        self.waited = True

    def unsafe_buffer_pointer(self) -> int:
        assert self.waited
        return int(self.data.ctypes.data)


def plugin_at(root: Path, major: int) -> Path:
    folder = root / "jax_plugins" / f"xla_cuda{major}"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('this imports jax')\n")
    (folder / "xla_cuda_plugin.so").touch()
    return folder / "xla_cuda_plugin.so"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in [name for name in sys.modules if name.split(".")[0] == "jax_plugins"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    backend.platform_unasked.cache_clear()
    yield tmp_path
    backend.platform_unasked.cache_clear()


class TestPlugin:
    def test_the_newest_is_found_without_importing_it(self, path: Path) -> None:
        older = plugin_at(path, 12)
        assert cuda.plugin() == (older, 12)
        newer = plugin_at(path, 13)
        sys.path_importer_cache.clear()
        assert cuda.plugin() == (newer, 13)

    def test_what_cannot_be_loaded_is_named(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plugin_at(path, 13)
        monkeypatch.setattr(cuda, "open_driver", lambda: SimpleNamespace(cuda=(13, 0)))
        with pytest.raises(AotbuildError, match="CUDA cannot be used\n  found "):
            cuda.make_client(private)

    def test_plugin_of_another_version(self, path: Path) -> None:
        plugin_at(path, 13)
        for name, version in (("jaxlib", "0.10.2"), ("jax_cuda13_pjrt", "0.10.1.dev3")):
            folder = path / f"{name}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        with pytest.raises(AotbuildError) as caught:
            cuda.make_client(private)
        assert str(caught.value) == (
            "CUDA cannot be used\n  expected jax-cuda13-pjrt 0.10.2, as jaxlib\n"
            "  found    jax-cuda13-pjrt 0.10.1.dev3\n"
            "Install it: pip install jax-cuda13-pjrt==0.10.2"
        )

    def test_driver_that_is_older_than_the_plugin(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plugin_at(path, 13)
        monkeypatch.setattr(cuda, "open_driver", lambda: SimpleNamespace(cuda=(12, 8)))
        with pytest.raises(AotbuildError) as caught:
            cuda.make_client(private)
        assert str(caught.value) == (
            "CUDA cannot be used\n  expected an NVIDIA driver for CUDA 13.0 or newer, as "
            "jax-cuda13-plugin needs\n  found    one for CUDA 12.8\n"
            "Update the driver of the machine; a container uses that of its host."
        )


@pytest.mark.parametrize("name", cuda.VARIABLES)
def test_memory_is_taken_as_needed_unless_a_variable_decides(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for each in cuda.VARIABLES:
        monkeypatch.delenv(each, raising=False)
    assert cuda.client_options() == {"preallocate": False}
    monkeypatch.setenv(name, "0.5")
    assert cuda.client_options() == {}


class TestPlatform:
    @pytest.mark.parametrize(("gpus", "expected"), [((), "cpu"), (("/",), "cuda")])
    def test_a_gpu_goes_first_as_in_jax(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, gpus: Any, expected: str
    ) -> None:
        monkeypatch.delenv("JAX_PLATFORMS", raising=False)
        monkeypatch.setattr(cuda, "OF_GPUS", gpus)
        assert backend.default_platform() == "cpu"
        plugin_at(path, 13)
        assert backend.default_platform() == "cpu"  # a process looks once
        sys.path_importer_cache.clear()
        backend.platform_unasked.cache_clear()
        assert backend.default_platform() == expected
        monkeypatch.setenv("JAX_PLATFORMS", "cpu")
        assert backend.default_platform() == "cpu"
        monkeypatch.setenv("JAX_PLATFORMS", "tpu,gpu")
        assert backend.default_platform() == "cuda"


class TestCopies:
    def test_bytes_come_through_the_primary_context(self) -> None:
        library = FakeDriver()
        driver = Driver(library)
        data = np.arange(10, dtype=np.uint8)
        for _ in range(2):
            np.testing.assert_array_equal(driver.copy(data.ctypes.data, 10, 0), data)
        copied = ["cuCtxPushCurrent_v2", "cuMemcpyDtoH_v2", "cuCtxPopCurrent_v2"]
        assert library.log == [
            "cuInit",
            "cuDeviceGet",
            "cuDevicePrimaryCtxRetain",
            *copied,
            *copied,
        ]

    @pytest.mark.parametrize("dtype", ["float32", "bool"])
    def test_results_on_a_gpu_are_copied(self, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
        monkeypatch.setattr(cuda, "open_driver", lambda: Driver(FakeDriver()))
        tree = trees.NumpyTrees()
        gpu = SimpleNamespace(
            platform="gpu", local_hardware_id=0, client=SimpleNamespace(platform_version="cuda")
        )
        data = np.array([[1, 0, 1], [0, 0, 1]], dtype)
        _, treedef = tree.flatten([0])
        (result,) = tree.with_arrays(treedef, [Aval((2, 3), dtype)], gpu).unflatten(
            [FakeArray(data)]
        )
        np.testing.assert_array_equal(result, data)
        assert (result.dtype, result.flags.writeable) == (data.dtype, False)
        assert not np.shares_memory(result, data)
