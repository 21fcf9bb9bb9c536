"""Kinds of functions and arguments that a build must handle, each called in a fresh process."""

from __future__ import annotations

from typing import Any

import pytest
from support.forks import forked
from support.projects import build, write_project

from aotbuild.build.pack import Package
from aotbuild.format.record import Record

pytestmark = pytest.mark.process

KINDS = """
import functools, json, os, jax, jax.numpy as jnp, numpy as np, aotbuild
from typing import NamedTuple
from jax.sharding import PartitionSpec as P

class Outer:
    class Inner:
        @staticmethod
        def double(x): return x * 2
        @classmethod
        def triple(cls, x): return x * 3
def affine(x, slope, shift=0.0): return x * slope + shift
partial = functools.partial(affine, slope=2.0)
half_given = functools.partial(affine, np.float32(10))
class Callable:
    def __init__(self): self.w = jnp.arange(3.0)
    __hash__ = None
    def __call__(self, x): return x + self.w
instance = Callable()
def spread(*xs): return sum(i * x for i, x in enumerate(xs, 1))
def first_and_rest(first, *rest, scale=1.0): return scale * first - spread(*rest)
def left_out(x, b=None, *rest): return x if b is None and not rest else -x
def any_keywords(x, **options): return x + options["b"] * 10 + options["a"] * 100
def named_options(**options): return options["options"] * 2
def defaults(a, b=None, c=None, d=None): return a - c if b is None and d is None else a
def between(a, z, b): return a + 10 * z + 100 * b
def static_between(a, mode, b, *, c): return {"plus": a + b, "minus": a - b}[mode] * c
@aotbuild.precompiled("proj:decorated")
@functools.partial(jax.jit, static_argnames="n")
def decorated(x, n): return x * n
@jax.jit
def jitted(x): return x + 1

class Pair(NamedTuple):
    left: jax.Array
    right: None
def nothing(x): return None
def empty(x): return {}, []
def no_inputs(): return jnp.arange(3)
def mixed(x): return Pair(x + 1, None), [None, (x,)]
def weak(x): return jnp.asarray(2.5) * 1, 3 * 1.0, jnp.float32(1), x * 2.0
def constant(x): return 7, True, np.ones(2, np.int8)
def unused(a, b, c): return b
def tree_step(state, gain): return {"w": state["w"] + gain, "n": state["n"] + 1}
def local_ref(x):
    ref = jax.new_ref(jnp.zeros_like(x))
    def step(i, _): ref[...] += x
    jax.lax.fori_loop(0, 3, step, None)
    return ref[...]
def environment(x): return x + float(os.environ.get("PROJ_SHIFT", "0"))
SHIFT = float(os.environ.get("PROJ_SHIFT", "0"))
def at_import(x): return x + SHIFT
def precision(x): return x @ x
def in_context(x): return jax.lax.with_sharding_constraint(x * 2, P("d"))
def many_devices(x): return x + len(jax.devices())
"""
# Apart, as each job of the other functions would import equinox, too.
NETS = """
import jax, jax.numpy as jnp, equinox as eqx
mlp = eqx.nn.MLP(3, 2, 4, 1, activation=lambda x: jnp.tanh(x), key=jax.random.key(0))
mlp_arrays, mlp_rest = eqx.partition(mlp, eqx.is_array)
def apply_mlp(arrays, x): return eqx.combine(arrays, mlp_rest)(x)
@eqx.filter_jit
def jitted(x): return x + 1
"""
REGISTERED = """
import jax, numpy as np
from jaxlib.cpu import _lapack
jax.ffi.register_ffi_target("proj_qr", _lapack.registrations()["lapack_sgeqrf_ffi"], platform="cpu")
def custom(x):
    out = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((2,), x.dtype))
    return jax.ffi.ffi_call("proj_qr", out, input_output_aliases={0: 0})(x)
"""
# Says for itself what the manifest says for it.
WIDE = "import jax\njax.config.update('jax_enable_x64', True)\ndef f(x): return x * 2\n"
X = "args: [x: 'f32[3]']"
AB = "args: [a: 'f32[]', b: 'f32[]']"
FUNCTIONS = {
    "nested": ("Outer.Inner.double", X),
    "class_method": ("Outer.Inner.triple", X),
    "partial": ("partial", X),
    "half_given": ("half_given", "args: [slope: 'f32[3]']"),
    "instance": ("instance", X),
    "spread": ("spread", "args: [{a: 'f32[]'}, {b: 'f32[]'}, {c: 'f32[]'}]"),
    "spread_xs": ("spread", "args: [{xs: 'f32[]'}]"),
    "first_and_rest": (
        "first_and_rest",
        "args: [{first: 'f32[]'}, {p: 'f32[]'}, {q: 'f32[]'}]\n    kwargs: {scale: 'f32[]'}",
    ),
    "left_out": ("left_out", X),
    "any_keywords": ("any_keywords", f"{X}\n    kwargs: {{b: 'f32[]', a: 'f32[]'}}"),
    "named_options": ("named_options", "kwargs: {options: 'f32[]'}"),
    "defaults": ("defaults", "args: [a: 'f32[]']\n    kwargs: {c: 'f32[]'}"),
    "between": (
        "between",
        "args: [a: 'f32[]']\n    kwargs: {b: 'f32[]', z: 'f32[]'}\n    donate: [z]",
    ),
    "static_between": (
        "static_between",
        f"{AB}\n    kwargs: {{c: 'f32[]'}}\n    static: {{mode: [plus, minus]}}",
    ),
    "decorated": ("decorated", f"{X}\n    static: {{n: [2, 3]}}"),
    "jitted": ("jitted", X),
    "nothing": ("nothing", X),
    "empty": ("empty", X),
    "no_inputs": ("no_inputs", "{}"),
    "mixed": ("mixed", X),
    "weak": ("weak", "args: [x: '~f32[]']"),
    "constant": ("constant", X),
    "unused": ("unused", "args: [a: 'f32[]', b: 'f32[]', c: 'f32[]']"),
    "unused_kept": ("unused", "args: [a: 'f32[]', b: 'f32[]', c: 'f32[]']\n    keep_unused: true"),
    "tree_step": (
        "tree_step",
        "args: [state: {w: 'f32[4]', n: 'i32[]'}, gain: 'f32[4]']\n    donate: [state]",
    ),
    "local_ref": ("local_ref", X),
    "environment": ("environment", f"{X}\n    env: {{PROJ_SHIFT: '2.5'}}"),
    "at_import": ("at_import", f"{X}\n    env: {{PROJ_SHIFT: '2.5'}}"),
    "no_environment": ("environment", X),
    "precision": (
        "precision",
        "args: [x: 'f32[4,4]']\n    config: {jax_default_matmul_precision: highest}",
    ),
    "in_context": ("in_context", "args: [x: 'f32[4]']\n    mesh: {d: 2}"),
    "many_devices": ("many_devices", X),
}
PRELUDE = """
import json, warnings, jax, numpy as np, aotbuild
lib = aotbuild.load("proj")
from proj import kinds as k, nets
x = np.arange(1, 4, dtype=np.float32)
f = np.float32
def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected), (found, expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
"""
CALLS = """
same(lib.nested(x), x * 2)
same(lib.class_method(x), x * 3)
same(lib.partial(x), x * 2)
same(lib.half_given(x), x * 10)
same(lib.instance(x), x + np.arange(3, dtype=f))
same(lib.module(x), nets.mlp(x))
same(lib.mlp_arrays(nets.mlp_arrays, x), nets.mlp(x))
same(lib.spread(f(1), f(2), f(3)), f(14))
same(lib.spread_xs(f(5)), f(5))
same(lib.first_and_rest(f(10), f(1), f(2), scale=f(2)), f(15))
same(lib.left_out(x), x)
same(lib.any_keywords(x, a=f(1), b=f(2)), x + 120)
same(lib.named_options(options=f(4)), f(8))
same(lib.defaults(f(5), c=f(3)), f(2))
same(lib.between(f(1), f(2), f(3)), f(321))
same(lib.between(f(1), b=f(3), z=f(2)), f(321))
z = jax.device_put(f(2))
same(lib.between(f(1), b=jax.device_put(f(3)), z=z), f(321))
assert z.is_deleted()
same(lib.static_between(f(5), "minus", f(3), c=f(10)), f(20))
same(lib.static_between(f(5), mode="plus", b=f(3), c=f(10)), f(80))
same(lib.decorated(x, 2), x * 2)
same(k.decorated(x, n=3), x * 3)
same(lib.jitted(x), x + 1)
same(lib.eqx_jitted(x), x + 1)
assert lib.nothing(x) is None
assert lib.empty(x) == ({}, [])
same(lib.no_inputs(), np.arange(3, dtype=np.int32))
pair, rest = lib.mixed(x)
assert type(pair) is k.Pair and pair.right is None and rest[0] is None
same((pair.left, rest[1]), (x + 1, (x,)))
weak, expected = lib.weak(2.0), jax.jit(k.weak)(2.0)
same(weak, expected)
assert [w.weak_type for w in weak] == [e.weak_type for e in expected] == [True, True, False, True]
same(lib.constant(x), jax.jit(k.constant)(x))
same(lib.unused(f(1), f(2), f(3)), f(2))
same(lib.unused_kept(f(1), f(2), f(3)), f(2))
state = jax.device_put({"w": np.zeros(4, f), "n": np.int32(0)})
same(lib.tree_step(state, np.ones(4, f)), {"w": np.ones(4, f), "n": np.int32(1)})
assert state["w"].is_deleted() and state["n"].is_deleted()
same(lib.local_ref(x), 3 * x)
same(lib.environment(x), x + f(2.5))
same(lib.at_import(x), x + f(2.5))
same(lib.no_environment(x), x)
same(lib.in_context(np.ones(4, f)), np.full(4, 2, f))
same(lib.many_devices(x), x + 1)
print(json.dumps(lib.stats()["fallbacks"]))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    functions = "".join(
        f"  {name}:\n    call: 'proj.kinds:{call}'\n    {options}\n".replace("    {}\n", "")
        for name, (call, options) in FUNCTIONS.items()
    )
    functions += "  wide:\n    call: proj.wide:f\n    args: [x: 'f64[3]']\n"
    functions += "    config: {jax_enable_x64: true}\n"
    functions += f"  module: {{call: 'proj.nets:mlp', {X}}}\n"
    functions += f"  eqx_jitted: {{call: 'proj.nets:jitted', {X}}}\n"
    like = "args: [arrays: {like: 'proj.nets:mlp_arrays'}, x: 'f32[3]']"
    functions += f"  mlp_arrays: {{call: 'proj.nets:apply_mlp', {like}}}\n"
    functions += "  custom:\n    call: proj.registered:custom\n    args: [x: 'f32[2,2]']\n"
    manifest = f"version: 1\npackage: proj\nfunctions:\n{functions}"
    root = tmp_path_factory.mktemp("handled")
    write_project(root, manifest, kinds=KINDS, nets=NETS, registered=REGISTERED, wide=WIDE)
    with pytest.MonkeyPatch.context() as patch:
        # What the calling shell sets does not reach the build.
        patch.setenv("PROJ_SHIFT", "0")
        patch.setenv("JAX_ENABLE_X64", "1")
        patch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "bfloat16")
        patch.setenv("JAX_NUM_CPU_DEVICES", "3")
        patch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=5")
        return build(root)


@pytest.fixture(scope="module")
def records(package: Package) -> dict[str, Record]:
    return {record.function: record for record in package.records}


def test_every_kind_gives_the_right_numbers(package: Package) -> None:
    root = package.folder.parent.parent
    found: dict[str, Any] = forked(PRELUDE + CALLS, path=root, devices=2)
    assert set(found.values()) == {0}


def test_donation_names_leaves_in_the_order_of_the_signature(records: dict[str, Record]) -> None:
    # Leaves are a, then the keywords by name: b, z.
    assert records["between"].calling.donated == (2,)
    assert records["tree_step"].calling.donated == (0, 1)


def test_shell_settings_are_ignored(records: dict[str, Record]) -> None:
    assert [name for name, record in records.items() if record.requires.x64] == ["wide"]
    assert {r.requires.devices for r in records.values() if not r.calling.mesh} == {1}
