"""Functions under nnx.jit and eqx.filter_jit: objects in and out, as these do it themselves.

The project is tests/packages/wrapped, built once. What it gives is called in forks of a process
that has imported jax only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import invoke
from support.forks import forked
from support.processes import fresh
from support.projects import build, copy_project
from support.shared import made_once

from aotbuild.errors import BuildError

pytestmark = pytest.mark.process

# `compiled` counts what jax traces, lowers and compiles. Objects are made before it begins.
PRELUDE = """
import jax, numpy as np
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: events.append(name) if "/compile/" in name else None)
import aotbuild
lib = aotbuild.load("proj")
def quietly(function, *args, **kwargs):
    events.clear()
    result = function(*args, **kwargs)
    jax.block_until_ready([x for x in jax.tree.leaves(result) if isinstance(x, jax.Array)])
    assert events == [], events
    return result
def plain(tree):
    leaves, structure = jax.tree.flatten(tree)
    is_key = lambda x: isinstance(x, jax.Array) and jax.dtypes.issubdtype(
        x.dtype, jax.dtypes.prng_key)
    return structure, [jax.random.key_data(x) if is_key(x) else x for x in leaves]
def refused(words, call, *args):
    try:
        call(*args)
    except aotbuild.errors.SignatureMismatch as err:
        assert words in str(err), err
    else:
        raise AssertionError(args)
def same(found, expected):
    (structure, found), (wanted, expected) = plain(found), plain(expected)
    assert structure == wanted, f"{structure}\\n{wanted}"
    for a, b in zip(found, expected):
        if isinstance(b, jax.Array):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-3, atol=1e-4)
        else:
            assert a is b or a == b, (a, b)
x = np.linspace(0, 1, 12, dtype="float32").reshape(3, 4)
y = np.ones((3, 2), "float32")
tokens = np.array([0, 1, 2], "int32")
"""
FLAX = "from flax import nnx\nimport proj.flax_models as m\n"
EQUINOX = "import equinox as eqx\nimport proj.equinox_models as m\n"


def make(folder: Path) -> None:
    build(copy_project("wrapped", folder))


@pytest.fixture(scope="module")
def root(run: Path) -> Path:
    return made_once(run / "wrapped", make) / "wrapped"


def call(root: Path, code: str, **variables: str) -> Any:
    return forked(f"{PRELUDE}{code}\nprint('null')", path=root, **variables)


def test_verify_passes(root: Path) -> None:
    """Also what a call writes into the caller's objects is compared with golden outputs."""
    document = json.loads(invoke("verify", root / "proj" / "_aot", "--json").stdout)
    checks = [each for each in document["checks"] if each["check"] in ("load", "golden")]
    assert [each for each in checks if each["status"] != "PASS"] == []
    assert len(checks) > 20


# --- nnx.jit ------------------------------------------------------------------------------------


def test_training_writes_into_the_callers_objects(root: Path) -> None:
    code = """
model, optimizer, twin, other = m.make_net(), m.make_optimizer(), m.make_net(), m.make_optimizer()
kernel = model.first.kernel
for _ in range(3):
    loss = quietly(lib.train, model, optimizer, x, y)
    same(loss, m.train(twin, other, x, y))
same(nnx.state(model), nnx.state(twin))
same(nnx.state(optimizer), nnx.state(other))
assert int(optimizer.step[...]) == 3
assert model.first.kernel is kernel
"""
    call(root, FLAX + code)


def test_the_mode_is_part_of_the_signature(root: Path) -> None:
    code = """
model, twin = m.make_net(), m.make_net()
both = np.stack([x, x])
for value in (x, both, x, both):
    same(quietly(lib.forward, model, value), m.forward(twin, value))
assert lib.stats()["misses"] == 2, lib.stats()
same(nnx.state(model), nnx.state(twin))
model.eval()
twin.eval()
same(quietly(lib.evaluate, model, x), twin(x))
same(nnx.state(model), nnx.state(twin))
refused("model.norm<static>", lib.forward, model, x)
"""
    call(root, FLAX + code)


def test_a_shared_variable_is_one_and_results_are_the_callers_own(root: Path) -> None:
    code = """
model, twin = m.make_tied(), m.make_tied()
for _ in range(3):
    found, expected = quietly(lib.tied, model, tokens), m.tied(twin, tokens)
    same(found["scores"], expected["scores"])
    assert found["model"] is model and found["count"] is model.count
assert int(model.count[...]) == 3
assert model.output is model.embed.embedding
same(nnx.state(model), nnx.state(twin))
model.output = nnx.Param(model.output[...])
words = "expected a Variable once more, found a flax.nnx.variablelib.Param"
refused(words, lib.tied, model, tokens)
"""
    call(root, FLAX + code)


def test_decoding_with_a_donated_cache_and_static_arguments(root: Path) -> None:
    code = """
model, twin = m.make_decoder(), m.make_decoder()
for step in range(4):
    token = np.full((3, 1, 4), step, "float32")
    twice = step == 3
    same(quietly(lib.decode, model, x=token, twice=twice), m.decode(twin, token, twice=twice))
same(nnx.state(model), nnx.state(twin))
assert int(model.attend.cache_index[...]) == 5
"""
    call(root, FLAX + code)


def test_what_a_decorator_donates_is_donated(root: Path) -> None:
    code = """
import proj.equinox_models as e
model, twin = m.make_tied(), m.make_tied()
same(quietly(lib.donating, model, tokens), m.donating(twin, tokens))
same(nnx.state(model), nnx.state(twin))
assert lib.donating.function.donate == ("model",)
assert lib.rest_donated.function.donate == ("y",)
y, z = jax.numpy.ones(2), jax.numpy.ones(2)
same(quietly(lib.rest_donated, x[0, :2], y), e.rest_donated(x[0, :2], z))
assert y.is_deleted() and z.is_deleted()
"""
    call(root, FLAX + code)


def test_in_a_transformation_the_source_is_called(root: Path) -> None:
    code = """
model, twin = m.make_net(), m.make_net()
found = nnx.grad(lambda model: lib.forward(model, x).sum())(model)
same(found, nnx.grad(lambda model: m.forward(model, x).sum())(twin))
same(nnx.state(model), nnx.state(twin))
assert lib.stats()["transformed"] == 1
with jax.disable_jit():
    lib.forward(model, x)
"""
    call(root, FLAX + code)


def test_fallbacks_write_back_too(root: Path) -> None:
    code = """
import dataclasses
from aotbuild.runtime.jax.backend import probe
from aotbuild.runtime.library import Library
from aotbuild.runtime.api import locate
def old_cpu(devices):
    return dataclasses.replace(probe(devices), features=frozenset())
lib = Library(locate("proj"), host=old_cpu)
model, twin = m.make_tied(), m.make_tied()
for _ in range(2):
    found, expected = lib.tied(model, tokens), m.tied(twin, tokens)
    same(found["scores"], expected["scores"])
    assert found["model"] is model
same(nnx.state(model), nnx.state(twin))
assert lib.stats()["fallbacks"]["jit"] == 2, lib.stats()
"""
    call(root, FLAX + code, AOTBUILD_FALLBACK="jit")


def test_precompiled_is_a_drop_in(root: Path) -> None:
    code = """
train = aotbuild.precompiled("proj:train")(m.train)
model, optimizer, twin, other = m.make_net(), m.make_optimizer(), m.make_net(), m.make_optimizer()
same(quietly(train, model, optimizer, x, y), m.train(twin, other, x, y))
same(nnx.state(model), nnx.state(twin))
"""
    call(root, FLAX + code)


# --- eqx.filter_jit -----------------------------------------------------------------------------


def test_static_leaves_come_back(root: Path) -> None:
    code = """
net = m.make_net()
for _ in range(2):
    found = quietly(lib.filtered, net, x)
    same(found, m.forward(net, x))
    assert found["activation"] is net.activation and found["rows"] == 3
    scaled, y = quietly(lib.scaled, net, np.float32(2), x)
    same((scaled, y), m.scaled(net, np.float32(2), x))
    assert type(scaled) is m.Net and scaled.scale == 0.5
"""
    call(root, EQUINOX + code)


def test_another_static_leaf_is_another_signature(root: Path) -> None:
    code = """
net = m.make_net()
lib.filtered(net, x)
for words, other in {
    "net.scale: compiled with 0.5, called with 0.25": m.Net(net.weight, 0.25, net.activation),
    "called with jax.numpy.tanh": m.Net(net.weight, 0.5, jax.numpy.tanh),
    "expected static 0.5, found an array": m.Net(net.weight, np.float32(0.5), net.activation),
    "expected static 0.5, found a list of 0": m.Net(net.weight, [], net.activation),
}.items():
    refused(words, lib.filtered, other, x)
"""
    call(root, EQUINOX + code)


def test_numpys_backend_refuses_them(root: Path) -> None:
    code = """
import json, sys, aotbuild
lib = aotbuild.load("proj", arrays="numpy")
try:
    lib.forward
except aotbuild.errors.AotbuildError as err:
    print(json.dumps(str(err)))
assert "jax" not in sys.modules
"""
    message = fresh(code, path=root)
    assert message == (
        "forward: it takes the objects that nnx.jit takes, which hold jax's arrays\n"
        'Load the package with arrays="jax".'
    )


# --- refused ------------------------------------------------------------------------------------

REFUSED = {
    "other_mode": ("changes attributes (deterministic) of model.drop, a flax.nnx.nn",),
    "new_attribute": (
        "changes attributes (seen) of model, a proj.flax_models.Net",
        "writes back the values of Variables and nothing else",
    ),
    "sharded": (
        "sharded: proj.flax_models:sharded is decorated with nnx.jit",
        "whose in_shardings and out_shardings aotbuild does not read",
        "Write them in the manifest, with mesh:",
    ),
    "one_twice": ("makes a flax.nnx.nn.stochastic.Dropout and returns it", "two objects"),
    "other_wrap": ("the manifest says nnx.jit", "is decorated with eqx.filter_jit"),
    "padded": ("functions.padded.pad: arguments under nnx.jit cannot be padded",),
}


@pytest.fixture(scope="module")
def error(tmp_path_factory: pytest.TempPathFactory) -> BuildError:
    copied = copy_project("wrapped", tmp_path_factory.mktemp("refused"))
    (copied / "refused.yaml").replace(copied / "aot.yaml")
    with pytest.raises(BuildError) as caught:
        build(copied)
    return caught.value


@pytest.mark.parametrize("name", REFUSED)
def test_refused(error: BuildError, name: str) -> None:
    message = next(f.message for f in error.failures if f.unit.startswith(f"{name}("))
    assert all(part in message for part in REFUSED[name]), message
