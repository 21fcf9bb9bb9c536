"""Every kind of function, built once and called from fresh processes: as jit, compiling nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.forks import forked

pytestmark = pytest.mark.process

# Counts trace, lowering and compile events from the start of the process. Arguments are made with
# numpy where they can be, because jax.numpy compiles; what setting up compiles is not counted.
PRELUDE = """
import json, jax, numpy as np, ml_dtypes
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: events.append(name) if "/compile/" in name else None)
import aotbuild
lib = aotbuild.load("zoo")
def same(found, expected, tolerance=1e-5):
    assert jax.tree.structure(found) == jax.tree.structure(expected), (
        jax.tree.structure(found), jax.tree.structure(expected))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert a.dtype == b.dtype and a.weak_type == b.weak_type, (a.aval, b.aval)
        np.testing.assert_allclose(
            np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64),
            rtol=tolerance, atol=tolerance)
def check(name, source, *args, tolerance=1e-5, **kwargs):
    events.clear()
    first = getattr(lib, name)(*args, **kwargs)
    jax.block_until_ready(first)
    seen = list(events)
    second = getattr(lib, name)(*args, **kwargs)
    jitted = jax.jit(source, static_argnames=[k for k, v in kwargs.items() if isinstance(v, int)])
    same(first, jitted(*args, **kwargs), tolerance)
    same(second, first, 0)
    return seen
rng = np.random.default_rng(0)
x24 = rng.normal(size=(2, 4)).astype(np.float32)
"""
CALLS = {
    "linen": (
        "from zoo import trees as z;out = check('linen', z.linen_apply, z.linen_params(), x24)"
    ),
    "nnx": "from zoo import trees as z; out = check('nnx', z.nnx_apply, z.nnx_state(), x24)",
    "equinox": (
        "from zoo import trees as z;"
        "out = check('equinox', z.equinox_apply, z.equinox_arrays(), x24)"
    ),
    "optax": (
        "from zoo import trees as z; x = rng.normal(size=(5, 4)).astype(np.float32);"
        "out = check('optax', z.optax_step, z.optax_params(), z.optax_state(), x)"
    ),
    "dataclass": (
        "from zoo import trees as z;"
        "out = check('ball_step', z.ball_step, z.ball(), 0.1);"
        "assert type(lib.ball_step(z.ball(), 0.1)) is z.Ball;"
        "assert lib.ball_step(z.ball(), 0.1).steps == 3"
    ),
    "dataclass out": (
        "from zoo import trees as z;"
        "out = check('ball_make', z.ball_make, np.float32(3));"
        "assert lib.ball_make(np.float32(3))['ball'].steps == 7"
    ),
    "linalg": (
        "from zoo import numerics as z; a = rng.normal(size=(6, 6)).astype(np.float32);"
        "out = check('linalg', z.linalg, a, tolerance=1e-4)"
    ),
    "loops": (
        "from zoo import numerics as z; x = np.arange(1, 6, dtype=np.float32);"
        "out = check('loops', z.loops, x, n=3) + check('loops', z.loops, x, n=4)"
    ),
    "random": (
        "from zoo import numerics as z;"
        "out = check('random', z.random, jax.random.key(7), np.float32(1))"
    ),
    "small floats": (
        "from zoo import numerics as z; b = np.arange(4).astype(ml_dtypes.bfloat16);"
        "out = check('small_floats', z.small_floats, b, np.ones(4, ml_dtypes.float8_e4m3fn),"
        " np.array([1, 2, -3, 0], ml_dtypes.int4))"
    ),
    "embedded": (
        "from zoo import numerics as z; x = rng.normal(size=(3, 64)).astype(np.float32);"
        "out = check('embedded', z.with_table, x) + check('embedded', z.with_table, x[:1])"
    ),
    "hoisted": (
        "from zoo import numerics as z; x = rng.normal(size=(3, 64)).astype(np.float32);"
        "out = check('hoisted', z.with_table, x) + check('hoisted', z.with_table, x[:1])"
    ),
    "weak": (
        "from zoo import numerics as z; x = np.ones(3, ml_dtypes.bfloat16);"
        "out = check('weak', z.weak, x, 2.5)"
    ),
    "positions": (
        "from zoo import numerics as z; x = np.ones(3, np.float32); s = np.float32(2);"
        "jit = jax.jit(z.positions, static_argnums=0); same(lib.positions(False, x, scale=s),"
        " jit(False, x, scale=s)); events.clear(); out = [];"
        "a = lib.positions(True, x, scale=s); b = lib.positions(causal=True, x=x, scale=s);"
        "out += events; same(a, b); same(a, jit(True, x, scale=s))"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_equals_jit_and_compiles_nothing(zoo: Path, name: str) -> None:
    assert forked(f"{PRELUDE}\n{CALLS[name]}\nprint(json.dumps(out))", path=zoo) == []


def test_donated_cache_is_deleted_on_every_path(zoo: Path) -> None:
    code = """
cache = jax.device_put({"k": np.zeros((2, 8, 4), np.float32), "length": np.int32(0)})
token = np.ones((2, 4), np.float32)
events.clear()
for step in range(4):
    old, cache = cache, lib.cache_write(cache, token)
    assert old["k"].is_deleted(), step
assert int(cache["length"]) == 4 and np.asarray(cache["k"]).sum() == 32.0
print(json.dumps(events))"""
    assert forked(PRELUDE + code, path=zoo) == []


def test_x64_function(zoo: Path) -> None:
    code = """
from zoo import numerics as z
jax.config.update("jax_enable_x64", True)
print(json.dumps(check("wide", z.wide, np.arange(3.0))))"""
    assert forked(PRELUDE + code, path=zoo) == []


def test_sharded_over_four_devices(zoo: Path) -> None:
    code = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
x = rng.normal(size=(8, 4)).astype(np.float32); w = rng.normal(size=(4, 6)).astype(np.float32)
events.clear()
out = lib.sharded(x, w)
jax.block_until_ready(out)
seen = list(events)
np.testing.assert_allclose(np.asarray(out["y"]), x @ w, rtol=1e-5, atol=1e-5)
assert out["y"].sharding.spec == P("data", "model"), out["y"].sharding
mesh = Mesh(np.array(jax.devices()[::-1]).reshape(2, 2), ("data", "model"))
placed = (jax.device_put(x, NamedSharding(mesh, P("data"))),
          jax.device_put(w, NamedSharding(mesh, P(None, "model"))))
events.clear()
again = lib.sharded(*placed)
jax.block_until_ready(again)
np.testing.assert_allclose(np.asarray(again["y"]), x @ w, rtol=1e-5, atol=1e-5)
assert [d.id for d in again["y"].sharding.mesh.devices.flat] == [3, 2, 1, 0]
print(json.dumps(seen + events))"""
    assert forked(PRELUDE + code, path=zoo, devices=4) == []


def test_hoisted_constants_are_stored_once(zoo: Path) -> None:
    blobs = [p for p in (zoo / "zoo/_aot/blobs").iterdir() if p.suffix == ".safetensors"]
    # The others are golden outputs, which are small here.
    assert sum(p.stat().st_size > 64 * 64 * 4 for p in blobs) == 1


def test_symbolic_portable_serves_sizes_that_no_executable_has(zoo: Path) -> None:
    code = """
from zoo import numerics as z
x = np.ones((17, 64), np.float32)
same(lib.symbolic(x), jax.jit(z.with_table)(x))
print(json.dumps(lib.stats()["fallbacks"]))"""
    found = forked(PRELUDE + code, path=zoo, AOTBUILD_FALLBACK="portable")
    assert found["portable"] == 1
