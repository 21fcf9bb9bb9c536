"""The bytes of CPU executables: the same with any number of jobs, and loops split alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import build, write_project

pytestmark = pytest.mark.process

# Many object files, which threads finish in any order; and products, whose sums threads share.
MODEL = """
import jax, jax.numpy as jnp
def deep(x):
    for i in range(12):
        x = jnp.sort(jnp.tanh(x * (i + 1.5)), axis=-1) + jnp.exp(x[::-1] / (i + 1)).cumsum(0)
    return x
def products(x, w):
    return jax.nn.softmax(jnp.tanh(x @ w) @ w.T).sum(0), (x @ x.T).mean()
def computed(x):
    for _ in range(40):
        x = x * x + 0.5
    return x
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu, portable]
functions:
  deep: {call: "proj.model:deep", args: [x: "f32[256,256]"]}
  products: {call: "proj.model:products", args: [x: "f32[256,512]", w: "f32[512,512]"]}
  computed: {call: "proj.model:computed", args: [x: "f32[2048,1024]"]}
"""


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", "off")


def files_of(root: Path) -> dict[str, bytes]:
    package = build(write_project(root, MANIFEST, model=MODEL))
    return {str(f.relative_to(package.folder)): f.read_bytes() for f in package.files()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTBUILD_STORE", "off")
        return files_of(tmp_path_factory.mktemp("a folder with a longer name"))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_jobs_and_folders_change_no_byte(
    expected: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    monkeypatch.setenv("AOTBUILD_JOBS", jobs)
    assert files_of(tmp_path) == expected
