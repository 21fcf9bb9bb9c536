"""`aotbuild init`, from a plain project to a call: sizes are filled in, and nothing else is."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.doc_sessions import Place

import aotbuild

SOURCE = '''\
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Params(dict):
    """Weights and biases."""


jax.tree_util.register_pytree_node(
    Params, lambda p: (tuple(p.values()), tuple(p)), lambda k, v: Params(zip(k, v))
)


def init() -> Params:
    return Params(w=jnp.ones((3, 2)), b=jnp.zeros(2))


@partial(jax.jit, static_argnames="negated", donate_argnames="x")
def apply(
    params: Params,
    x: Float[Array, "batch 3"],
    *,
    scale,  # f32[]
    negated: bool = False,
):
    y = (x @ params["w"] + params["b"]) * scale
    return -y if negated else y


class Mean:
    @staticmethod
    @jax.jit
    def of(x: "Float[Array, 'n']"):
        return x.mean()


twice = jax.jit(lambda x: 2 * x)
'''
PYPROJECT = """\
[build-system]
requires = ["uv_build>=0.9"]
build-backend = "uv_build"

[project]
name = "my-nets"  # not the name of the package
version = "1.0"
dependencies = ["jaxtyping"]

[tool.uv.build-backend]
module-name = "nets"
"""


@pytest.mark.wheel
@pytest.mark.any_jax
def test_a_project_of_uv_becomes_a_wheel(tmp_path: Path) -> None:
    place = Place(tmp_path / "project")
    (place.root / "src").mkdir()
    place.write("src/nets/__init__.py", "")
    place.write("src/nets/model.py", SOURCE)
    place.write("pyproject.toml", PYPROJECT)
    place.run("aotbuild init nets.model --backend hatchling --yes")
    place.run("aotbuild plan", code=3)
    manifest = (place.root / "aot.yaml").read_text()
    assert manifest.count("TODO") - 1 == 3  # the first line names it
    filled = manifest.replace("batch: TODO", "batch: [1, 4]").replace("n: TODO", "n: 8")
    place.write("aot.yaml", filled.replace("x: TODO", "x: f32[2]"))
    place.run("pip wheel . --no-deps -w dist")
    (wheel,) = (place.root / "dist").glob("my_nets-1.0-py3-none-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    lib = aotbuild.load(tmp_path / "site" / "nets" / "_aot")
    assert sorted(lib.functions) == ["apply", "of", "twice"]
    assert [*lib.twice(np.ones(2, "f4"))] == [2, 2]
    assert lib.of(np.arange(8, dtype="f4")) == 3.5
    assert len(lib.apply.records) == 4
