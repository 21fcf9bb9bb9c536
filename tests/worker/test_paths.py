"""What must not be in a package: paths of the machine that built it. What must be: its settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.forks import forked
from support.processes import ROOT
from support.projects import build, write_project

from aotbuild.build.pack import Package
from aotbuild.errors import BuildError

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

# Each puts a name, a location or a function's own file into what jax and XLA record.
NAMED = """
import functools, jax, jax.numpy as jnp, numpy as np, equinox as eqx

@jax.custom_vjp
def vjp(x): return jnp.sin(x)
vjp.defvjp(lambda x: (vjp(x), x), lambda x, g: (g * jnp.cos(x),))
@jax.custom_jvp
def jvp(x): return jnp.cos(x)
jvp.defjvps(lambda t, y, x: -t * jnp.sin(x))
@jax.checkpoint
def remembered(x): return jnp.sin(jnp.sin(x))
@functools.partial(jax.jit, inline=False)
def nested(x): return x @ x.T
def body(c, y):
    with jax.named_scope("inside"):
        return jvp(c) * y, vjp(c)
def everything(x):
    with jax.named_scope("outer"):
        c, ys = jax.lax.scan(body, x[0], x)
    g = jax.grad(lambda z: vjp(remembered(z)).sum())(x)
    w = jax.lax.fori_loop(0, 3, lambda i, c: c + i, nested(x))
    k = jax.lax.cond(x[0, 0] > 0, vjp, jvp, x)
    return c, ys, g, w, k, jnp.linalg.eigh(w), jax.random.normal(jax.random.key(0), (2,))
layer = eqx.nn.Linear(3, 3, key=jax.random.key(1))
def modules(x): return jax.vmap(layer)(x), jax.nn.softmax(x)
def precise(x): return x @ x.T
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu, {portable: {platforms: [cpu]}}]
functions:
  everything:
    call: proj.named:everything
    args: [x: "f32[3,3]"]
  hoisted: {call: "proj.named:modules", args: [x: "f32[3,3]"], constants: hoist}
  embedded: {call: "proj.named:modules", args: [x: "f32[3,3]"]}
  precise:
    call: proj.named:precise
    args: [x: "f32[3,3]"]
    config: {jax_default_matmul_precision: highest}
  usual: {call: "proj.named:precise", args: [x: "f32[3,3]"]}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return build(write_project(tmp_path_factory.mktemp("paths"), MANIFEST, named=NAMED))


def test_no_path_of_the_build_machine_is_inside(package: Package) -> None:
    root, home = package.folder.parent.parent, f"{Path.home()}/"
    secrets = [root, ROOT, sys.prefix, sys.base_prefix, home, "site-packages", "/tmp/"]
    for file in package.files():
        # The index has the digests of the project's modules, by their paths in the project.
        names = [] if file.name == "index" else ["named.py"]
        data = file.read_bytes()
        assert [name for name in [*secrets, *names] if os.fsencode(name) in data] == [], file


def test_configured_precision_is_compiled_in(package: Package) -> None:
    files = {
        record.function: package.folder / record.blob.path
        for record in package.records
        if record.target.is_portable
    }
    code = (
        "from jax import export; found = []\n"
        "for path in {paths}:\n"
        "    text = export.deserialize(bytearray(open(path, 'rb').read())).mlir_module()\n"
        "    found.append(text.count('HIGHEST'))\n"
        "print(found)"
    ).format(paths=[os.fspath(files[name]) for name in ("precise", "usual")])
    assert forked(code) == [2, 0]


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("call: proj.mod:scoped", "the compiled bytes would contain '{root}/proj/mod.py"),
        ("call: proj.mod:named", "the compiled bytes would contain '{root}/proj/mod.py"),
        (
            "call: proj.mod:static\n    static: {{path: ['{root}/weights.npz']}}",
            "the index would contain '{root}/weights.npz'",
        ),
    ],
)
def test_path_that_the_function_keeps_is_refused(tmp_path: Path, place: str, found: str) -> None:
    source = (
        "import jax, jax.numpy as jnp\n"
        "def scoped(x):\n    with jax.named_scope(__file__): return jnp.sin(x)\n"
        "def inner(x): return jnp.sin(x)\n"
        "inner.__name__ = inner.__qualname__ = __file__\n"
        "def named(x): return jax.jit(inner)(x)\n"
        "def static(x, path): return x\n"
    )
    entry = place.format(root=tmp_path)
    manifest = (
        "version: 1\npackage: proj\ntargets: [{portable: {platforms: [cpu]}}]\n"
        f"functions:\n  f:\n    {entry}\n    args: [x: 'f32[3]']\n"
    )
    with pytest.raises(BuildError) as caught:
        build(write_project(tmp_path, manifest, mod=source))
    assert found.format(root=tmp_path) in str(caught.value)
    assert "a path of this machine" in str(caught.value)
    assert {path.name for path in (tmp_path / "proj").iterdir()} == {"__init__.py", "mod.py"}
