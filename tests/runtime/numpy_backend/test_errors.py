"""The numpy backend beside the jax backend: what it refuses, and in which words."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import packages
from support.numpy_backend import both, with_numpy
from support.packages import build

from aotbuild.errors import AotbuildError, InvalidArgument, NoExecutable, SignatureMismatch
from aotbuild.platforms.base import Client
from aotbuild.runtime import devices
from aotbuild.runtime.jax.backend import JaxExecutable
from aotbuild.runtime.numpy.executables import NumpyExecutable

X = np.arange(12, dtype="float32").reshape(3, 4)


@jax.tree_util.register_static
class Registered:
    pass


class TestErrors:
    """Both backends raise the same: type, data and text, but for whose function makes an array."""

    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [
            ((X[:2],), {}),
            ((X.astype("int32"),), {}),
            ((2.0,), {}),
            (({"x": X},), {}),
            ((), {}),
            ((X, X), {}),
            ((), {"y": X}),
        ],
    )
    def test_no_signature(self, tmp_path: Path, args: Any, kwargs: Any) -> None:
        libraries = both(tmp_path, build("f", lambda x: x, {"x": X}))
        texts = []
        for library in libraries:
            with pytest.raises(SignatureMismatch) as raised:
                library.f(*args, **kwargs)
            texts.append(str(raised.value))
        assert texts[0] == texts[1]

    @pytest.mark.parametrize(
        ("value", "found"),
        [
            ("text", "a str"),
            (np.array(["text"]), "a numpy.ndarray: its dtype is <U4"),
            (X.astype(">f4"), "a numpy.ndarray: its dtype is >f4"),
            (np.ma.masked_array(X), r"a numpy.ma.MaskedArray: it is masked; use its filled\(\)"),
            (2**40, "a int: 1099511627776 is too large for int32"),
            (np.datetime64("2026-01-01"), "a numpy.datetime64"),
        ],
    )
    def test_no_array(self, tmp_path: Path, value: Any, found: str) -> None:
        libraries = both(tmp_path, build("f", lambda x: x, {"x": [X]}))
        with pytest.raises(InvalidArgument):
            libraries[0].f([value])
        with pytest.raises(InvalidArgument, match=found) as raised:
            libraries[1].f([value])
        assert raised.value.path == "x[0]"
        remedy = "x.dtype.newbyteorder" if ">f4" in found else "Convert it with numpy.asarray"
        assert remedy in str(raised.value)

    def test_numpy_ma_is_being_imported_elsewhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, library = both(tmp_path, build("f", lambda x: x + 1, {"x": X}))
        monkeypatch.setitem(sys.modules, "numpy.ma", ModuleType("numpy.ma"))
        assert np.array_equal(library.f(X), X + 1)

    def test_an_array_of_jax_is_refused_each_time(self, tmp_path: Path) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x, {"x": X}))
        library.f(X)
        for _ in range(2):
            with pytest.raises(InvalidArgument, match="ArrayImpl"):
                library.f(jnp.asarray(X))

    def test_typed_keys(self, tmp_path: Path) -> None:
        key = jax.random.key(0)
        draw = build("draw", lambda k: jax.random.bits(k, (2,)), {"k": key})
        make = build("make", jax.random.key, {"seed": 1})
        library = with_numpy(tmp_path, draw, make, build("f", lambda x: x, {"x": X}))
        with pytest.raises(SignatureMismatch, match=r"k: expected key<fry>\[\], found u32\[2\]"):
            library.draw(np.zeros(2, "uint32"))
        with pytest.raises(NoExecutable, match="arrays: a typed PRNG key needs load"):
            library.make(1)
        assert library.preload() == 1

    def test_a_type_that_only_jax_knows(self, tmp_path: Path) -> None:
        out = build("f", lambda x: x, {"x": X})
        tree = ["node", "test_jaxfree_errors:Registered", None, "*"]
        library = with_numpy(tmp_path, packages.with_out_tree(out, tree))
        with pytest.raises(AotbuildError, match="a type that only jax knows"):
            library.f(X)
        with pytest.raises(InvalidArgument, match="Registered") as raised:
            library.f(Registered())
        assert "If its type is registered with jax as a pytree: numpy's" in str(raised.value)
        assert 'Load the package with arrays="jax", or compile' in str(raised.value)

    @pytest.mark.parametrize("policy", ["portable", "jit"])
    def test_fallbacks_need_jax(self, tmp_path: Path, policy: str) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x, {"x": X}), fallback=policy)
        with pytest.raises(SignatureMismatch) as raised:
            library.f(X[:2])
        assert raised.value.trace[-1] == (
            f'fallback {policy}: it needs jax, and load(…, arrays="jax")'
        )

    def test_what_jaxlib_refuses_is_named(self, tmp_path: Path) -> None:
        library = with_numpy(tmp_path, build("f", lambda x: x, {"x": X}))
        with jax.transfer_guard("disallow"), pytest.raises(AotbuildError, match="host-to-device"):
            library.f(X)
        np.testing.assert_array_equal(library.f(X), X)


class FullDevices(Client):
    def shortage(self, error: str, ordinal: int) -> str | None:
        return f"device {ordinal} is full: {error}" if "RESOURCE_EXHAUSTED" in error else None


class TestFullDevice:
    """XLA's error becomes the platform's message, wherever a device can be full."""

    @pytest.mark.parametrize("arrays", ["jax", "numpy"])
    @pytest.mark.parametrize(
        ("place", "use"),
        [
            ("deserialize", lambda library: library.f(X)),
            ("deserialize", lambda library: library.preload()),
            ("put", lambda library: library.h(X)),
            ("run", lambda library: library.f(X)),
        ],
    )
    def test_everywhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: str, place: str, use: Any
    ) -> None:
        hoisted = build("h", lambda x, w: x + w, {"x": X}, constants={"w": X})
        with_jax, numpys = both(tmp_path, build("f", lambda x: x * 2, {"x": X}), hoisted)
        library = with_jax if arrays == "jax" else numpys

        def full(*_: Any, **__: Any) -> Any:
            msg = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 48 bytes."
            raise RuntimeError(msg)

        loader = library._package.backend.executable_loader
        owner = (
            (JaxExecutable if arrays == "jax" else NumpyExecutable) if place == "run" else loader
        )
        monkeypatch.setattr(owner, place, full)
        monkeypatch.setattr(devices, "client_part", lambda _: FullDevices())
        with pytest.raises(AotbuildError, match="device 0 is full: RuntimeError: RESOURCE_EXH"):
            use(library)
