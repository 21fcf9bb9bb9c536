"""Padding that a build refuses, with the reason; everything is in one build."""

from __future__ import annotations

import pytest
from support.projects import build, write_project

from aotbuild.errors import BuildError

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

REFUSED = """
import os, jax, jax.numpy as jnp, numpy as np
def centred(x): return x - x.mean(0)
def relative(x): return x - x.max(0)
def ranked(x): return x.max(0) - x
def placed(x): return x * jnp.linspace(0, 1, x.shape[0])[:, None]
def spectrum(x): return jnp.fft.fft(x, axis=0).real
def least(x): return x - x.min(0)
def counted(x): return x / x.shape[0]
def summed(x): return x.sum(0)
def twice(x): return jnp.concatenate([x, x])
def faintly(x): return x + 1e-3 * x.mean(0)
def normed(x): return jax.nn.softmax(x, 0)
def capped(x): return x[:4], x
def even(x): return x.reshape(-1, 2, 4).reshape(-1, 4)
def infinite(x): return x / 0.0
def keys(batch): return jax.random.split(jax.random.key(0), batch)
def keyed(key, x): return x
def split(x): return jax.random.split(jax.random.key(0), x.shape[0])
def leaving(x): return x
def leave(): os._exit(3)
def pairs(batch): return {"x": jnp.zeros((2 * batch, 4))}
def both(t): return t["x"]
def layers(depth): return [jnp.zeros(3)] * depth
def stacked(t, x): return x + sum(a.sum() for a in t)
"""
SIZES = "dims: {batch: [4, 8]}, pad: {batch: 0}"
X = f'args: [x: "f32[batch,4]"], {SIZES}'
KEYED = f'args: [key: {{like: "proj.m:keys", dims: [batch]}}, x: "f32[batch,4]"], {SIZES}'
PAIRS = f'args: [t: {{like: "proj.m:pairs", dims: [batch]}}], {SIZES}'
STACKED = (
    'args: [t: {like: "proj.m:layers", dims: [depth]}, x: "f32[batch,4]"], '
    "dims: {depth: [1, 2], batch: 8}, pad: {batch: 0}"
)
LEAVING = f'args: [x: "f32[batch,4]"], {SIZES}, verify: {{inputs: "proj.m:leave"}}'
CASES = {
    "centred": ("result changes in 20 of 20 numbers, at batch=0, 1, 2, …", X),
    "relative": ("The function mixes along this dim", X),
    "ranked": ("The function mixes along this dim", X.replace("f32", "i32")),
    "least": ("padding batch=5 to 8", X.replace("pad: {batch: 0}", "pad: {batch: 1}")),
    "placed": ("padding batch=2 to 4", X),
    "spectrum": ("padding batch=2 to 4", X),
    "counted": ("The function mixes along this dim, as a mean over it does", X),
    "summed": ("result has no axis of this dim", X),
    "twice": ("result follows the dim in another way than by its size", X),
    "faintly": ("where it differs most: by 0.000", X),
    "normed": ("The function mixes along this dim", X),
    "capped": ("result[0] has no axis of this dim", X),
    "even": ("padding was to be tried at batch=5, where the function cannot be traced", X),
    "infinite": ("result is finite nowhere, so nothing can be compared", X),
    "keyed": ("functions.keyed.pad.batch: key is key<fry>: typed PRNG keys", KEYED),
    "split": ("result holds typed PRNG keys, which cannot be cut", X),
    "both": ("t['x'] follows the dim in another way than by its size", PAIRS),
    "leaving": ("calling the function with padded arguments", LEAVING),
    "stacked": ("pad: the trees differ from those of stacked(depth=1, batch=8)", STACKED),
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    entries = (f"  {n}: {{call: 'proj.m:{n}', {given}}}\n" for n, (_, given) in CASES.items())
    manifest = f"version: 1\npackage: proj\nfunctions:\n{''.join(entries)}"
    root = write_project(tmp_path_factory.mktemp("refused"), manifest, m=REFUSED)
    with pytest.raises(BuildError) as caught:
        build(root)
    texts: dict[str, str] = {}
    for failure in caught.value.failures:
        name = failure.unit.partition("(")[0]
        texts[name] = texts.get(name, "") + failure.message
    return texts


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, refusals: dict[str, str]) -> None:
    assert CASES[name][0] in refusals[name]
