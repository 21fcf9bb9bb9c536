"""Padding through a real build: what is found and compared, what is refused, what calls return."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.forks import forked
from support.processes import fresh
from support.projects import build, write_project

import aotbuild
from aotbuild.build.pack import Package
from aotbuild.errors import SignatureMismatch
from aotbuild.format.index import Index

pytestmark = pytest.mark.process

SOURCE = """
import jax, jax.numpy as jnp, numpy as np
from typing import NamedTuple

class Out(NamedTuple):
    rows: object
    scores: object

def params(): return {"w": jnp.zeros((4, 4)), "b": jnp.zeros(4)}
def cache(batch): return [jnp.zeros((batch, 4)), jnp.zeros((2, batch), jnp.int32)]
def masks(batch, seq): return {"mask": np.ones((batch, seq), bool)}

def attend(params, tokens, mask, *, causal, scale):
    x = params["w"][tokens % 4] + params["b"]
    scores = jnp.einsum("bsd,btd->bst", x, x) * scale
    if causal:
        n = tokens.shape[1]
        scores = jnp.where(jnp.tril(jnp.ones((n, n), bool)), scores, -1e9)
    scores = jax.nn.softmax(jnp.where(mask[:, None, :], scores, -1e9), -1)
    return Out(scores @ x, scores)
def step(state, x): return [state[0] + x, state[1] + 1], x * 2
def outer(x, y): return x[:, :, None] * y[None, None, :]
def dense(x, w): return jnp.tanh(x @ w)
def amplified(x, w, key): return jnp.sin(1000 * (x @ w)) + 0 * jax.random.uniform(key)
"""
DENSE = "call: proj.m:dense\n    args: [x: 'f32[batch,4]', w: 'f32[4,4]']"
MANIFEST = f"""
version: 1
package: proj
targets: [cpu: {{devices: 1}}, cpu: {{devices: 2}}]
functions:
  attend:
    call: proj.m:attend
    args: [params: {{like: "proj.m:params"}}, tokens: "i32[batch,seq]", mask: "bool[batch,seq]"]
    kwargs: {{scale: "~f32[]"}}
    static: {{causal: [true, false]}}
    dims: {{batch: [2, 4], seq: 8}}
    pad: {{batch: 0, seq: 0}}
    verify: {{inputs: "proj.m:masks"}}
  step:
    call: proj.m:step
    args: [state: {{like: "proj.m:cache", dims: [batch]}}, x: "f32[batch,4]"]
    dims: {{batch: [2, 4]}}
    pad: {{batch: 0.0}}
    donate: [state]
  outer:
    call: proj.m:outer
    args: [x: "f32[a,b]", y: "f32[c]"]
    dims: [{{a: 2, b: 4, c: 3}}, {{a: 4, b: 2, c: 3}}, {{a: 4, b: 4, c: 5}}]
    pad: {{a: .nan, b: 7}}
  mesh:
    {DENSE}
    dims: {{batch: [2, 8]}}
    mesh: {{data: 2}}
    in_shardings: {{x: [data, null], w: null}}
    out_shardings: [data, null]
    pad: {{batch: 0}}
  # A sum of one row has another order than that of many, which changes last bits, here a thousand
  # times as much.
  amplified:
    call: proj.m:amplified
    args: [x: "f32[batch,256]", w: "f32[256,256]", key: "key<fry>[]"]
    dims: {{batch: [8, 64]}}
    pad: {{batch: 0}}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return build(write_project(tmp_path_factory.mktemp("padded"), MANIFEST, m=SOURCE))


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the package's module, importable here."""
    made = ModuleType("proj.m")
    exec(SOURCE, vars(made))
    monkeypatch.setitem(sys.modules, "proj.m", made)
    return made


@pytest.fixture
def library(package: Package) -> Any:
    return aotbuild.load(package.folder)


class TestResults:
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(a=st.integers(0, 4), b=st.integers(0, 4), c=st.sampled_from([3, 5]), seed=st.integers(0))
    def test_equal_to_the_exact_one(self, library: Any, a: int, b: int, c: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        x = random.normal(size=(a, b)).astype("float32")
        y = random.normal(size=c).astype("float32")
        if c == 3 and a > 2 and b > 2:
            with pytest.raises(SignatureMismatch):
                library.outer(x, y)
            return
        found = library.outer(x, y)
        assert found.shape == (a, b, c)
        np.testing.assert_array_equal(found, x[:, :, None] * y)

    def test_two_dims_trees_and_statics(self, library: Any, module: ModuleType) -> None:
        random = np.random.default_rng(0)
        values = {"w": (4, 4), "b": (4,)}
        params = {n: random.normal(size=s).astype("float32") for n, s in values.items()}
        for batch, seq, causal in [(1, 1, True), (2, 7, False), (3, 8, True), (4, 5, True)]:
            tokens = random.integers(0, 4, (batch, seq)).astype("int32")
            args = (params, tokens, np.ones((batch, seq), bool))
            want = module.attend(*args, causal=causal, scale=0.5)
            for _ in range(2):
                have = library.attend(*args, causal=causal, scale=0.5)
                assert type(have) is module.Out
                for one, other in zip(have, want, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)

    def test_state_goes_round_and_is_donated(self, library: Any) -> None:
        state: Any = [jnp.zeros((3, 4)), jnp.zeros((2, 3), "int32")]
        for count in range(1, 4):
            state, doubled = library.step(state, jnp.ones((3, 4)))
            assert (doubled == 2).all()
            assert [leaf.shape for leaf in state] == [(3, 4), (2, 3)]
            assert (state[0] == count).all()
            assert (state[1] == count).all()

    def test_rounding_by_size_is_no_difference(self, library: Any) -> None:
        x, w = np.full((3, 256), 1 / 3, "float32"), np.full((256, 256), 1 / 7, "float32")
        found = library.amplified(x, w, jax.random.key(0))
        np.testing.assert_allclose(found, np.sin(1000 * (x @ w)), atol=0.1)

    def test_kind_of_arrays(self, library: Any) -> None:
        x, y = np.ones((3, 4), "float32"), np.ones(5, "float32")
        assert not library.outer(x, y).committed
        device = jax.devices()[-1]
        there = library.outer(jax.device_put(x, device), y)
        assert (there.committed, there.devices()) == (True, {device})
        assert library.on(device).outer(x, y).devices() == {device}


class TestCost:
    def test_nothing_is_traced_or_compiled(self, library: Any) -> None:
        x, y = jnp.ones((3, 4)), jnp.ones(5)
        events: list[str] = []

        def listen(event: str, _seconds: float, **_: Any) -> None:
            events.append(event)

        jax.monitoring.register_event_duration_secs_listener(listen)
        try:
            library.outer(x, y)
            library.outer(x, y)
        finally:
            jax.monitoring.unregister_event_duration_listener(listen)
        assert [event for event in events if "trace" in event or "compile" in event] == []


class TestErrors:
    def test_explained(self, library: Any) -> None:
        found = library.explain("outer", np.ones((3, 2), "float32"), np.ones(3, "float32"))
        assert found.padded == "a 3 → 4"
        assert str(found).startswith("outer: runs outer(a=4, b=2, c=3) cpu:")
        assert str(found).partition("\n")[0].endswith(", padded a 3 → 4")


def test_without_jax(package: Package) -> None:
    code = (
        "import json, sys, numpy as np, aotbuild\n"
        f"library = aotbuild.load({str(package.folder)!r}, arrays='numpy')\n"
        "x, y = np.arange(12, dtype='float32').reshape(3, 4), np.ones(5, 'float32')\n"
        "found = [library.outer(x, y) for _ in range(2)]\n"
        "assert all((one == x[:, :, None]).all() and one.shape == (3, 4, 5) for one in found)\n"
        "print(json.dumps(['jax' in sys.modules, library.stats()['padded']]))\n"
    )
    assert fresh(code) == [False, 2]


def test_over_a_mesh(package: Package) -> None:
    """What the devices can share is sharded as compiled, the rest is whole on each of them."""
    code = (
        "import json, jax, numpy as np, aotbuild\n"
        "from jax.sharding import NamedSharding, PartitionSpec\n"
        f"library = aotbuild.load({str(package.folder)!r})\n"
        "w = np.eye(4, dtype='float32')\n"
        "found = []\n"
        "for size in (1, 2, 3, 6):\n"
        "    x = np.full((size, 4), 0.5, 'float32')\n"
        "    y = library.mesh(x, w)\n"
        "    np.testing.assert_allclose(y, np.tanh(x), rtol=1e-6)\n"
        "    found.append([y.shape[0], y.is_fully_replicated, y.committed])\n"
        "again = library.mesh(y, w)\n"
        "np.testing.assert_allclose(again, np.tanh(np.tanh(x)), rtol=1e-6)\n"
        "print(json.dumps([found, library.stats()['padded']]))\n"
    )
    found = forked(code, devices=2)
    assert found == [[[1, True, True], [2, False, True], [3, True, True], [6, False, True]], 4]


@pytest.mark.any_jax
def test_what_is_compared_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second build takes it from the store; what was refused is tried again."""
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    options = "dims: {batch: 4}\n    pad: {batch: 0}\n"
    manifest = f"version: 1\npackage: proj\nfunctions:\n  dense:\n    {DENSE}\n    {options}"
    root = write_project(tmp_path / "project", manifest, m=SOURCE)
    first = build(root)
    entries = sum(1 for path in (tmp_path / "store").rglob("*") if path.is_file())
    second = build(root)
    assert entries == sum(1 for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert (first.folder / "index").read_bytes() == (second.folder / "index").read_bytes()
    index = Index.open((second.folder / "index").read_bytes(), "index")
    pad = next(index.functions()).pad
    assert pad is not None
    assert (pad.buckets, pad.leaves, pad.outputs) == (((4,),), (((0, 0),), ()), (((0, 0),),))
